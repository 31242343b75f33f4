-- The table of keys and values of Flink's upsert-kafka manual, read: a record is what its user did last, one without a
-- value that the user is gone. Users are counted by what they did last.
--
--     tidemill broker start --detach
--     tidemill topic write behavior_by_user examples/topics/last_behaviour/behavior_by_user.jsonl
--     tidemill run --local --bounded examples/last_behaviour.sql
--     tidemill topic read users_per_behavior
CREATE TABLE KafkaTable (
  `ts` TIMESTAMP(3) METADATA FROM 'timestamp',
  `user_id` BIGINT,
  `item_id` BIGINT,
  `behavior` STRING,
  PRIMARY KEY (`user_id`) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka',
  'topic' = 'behavior_by_user',
  'properties.bootstrap.servers' = 'localhost:9092',
  'key.format' = 'json',
  'key.json.ignore-parse-errors' = 'true',
  'value.format' = 'json',
  'value.json.fail-on-missing-field' = 'false',
  'value.fields-include' = 'EXCEPT_KEY'
);

CREATE TABLE users_per_behavior (
  behavior STRING,
  users BIGINT,
  last_time TIMESTAMP(3),
  PRIMARY KEY (behavior) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka',
  'topic' = 'users_per_behavior',
  'properties.bootstrap.servers' = 'localhost:9092',
  'key.format' = 'json',
  'value.format' = 'json'
);

SET 'table.local-time-zone' = 'UTC';

INSERT INTO users_per_behavior SELECT behavior, COUNT(*), MAX(ts) FROM KafkaTable GROUP BY behavior;
