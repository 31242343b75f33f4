-- What Flink's Kafka manual shows, in one script: keys and values of several fields, and what Kafka knows of a record.
--
--     tidemill broker start --detach
--     echo '{"key": {"user_id": 1, "item_id": 9}, "value": {"user_id": 1, "item_id": 9, "behavior": "buy"}}' \
--       | tidemill topic write user_behavior
--     tidemill run --local --bounded examples/behaviour.sql
--     tidemill topic read purchases
CREATE TABLE user_behavior (
  `event_time` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',
  `partition` BIGINT METADATA VIRTUAL,
  `offset` BIGINT METADATA VIRTUAL,
  `user_id` BIGINT,
  `item_id` BIGINT,
  `behavior` STRING
) WITH (
  'connector' = 'kafka',
  'topic' = 'user_behavior',
  'properties.bootstrap.servers' = 'localhost:9092',
  'properties.group.id' = 'testGroup',
  'scan.startup.mode' = 'earliest-offset',
  'key.format' = 'json',
  'key.json.ignore-parse-errors' = 'true',
  'key.fields' = 'user_id;item_id',
  'value.format' = 'json',
  'value.json.fail-on-missing-field' = 'false',
  'value.fields-include' = 'ALL'
);

-- The same field in key and value: the prefix tells the key's columns from the value's.
CREATE TABLE purchases (
  `k_user_id` BIGINT,
  `k_item_id` BIGINT,
  `user_id` BIGINT,
  `source` STRING,
  `event_time` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'
) WITH (
  'connector' = 'kafka',
  'topic' = 'purchases',
  'properties.bootstrap.servers' = 'localhost:9092',
  'key.format' = 'json',
  'key.fields-prefix' = 'k_',
  'key.fields' = 'k_user_id;k_item_id',
  'value.format' = 'json',
  'value.fields-include' = 'EXCEPT_KEY'
);

INSERT INTO purchases
SELECT
  `user_id`,
  `item_id`,
  `user_id`,
  CONCAT('user_behavior/', CAST(`partition` AS STRING), '/', CAST(`offset` AS STRING)),
  `event_time`
FROM user_behavior
WHERE `behavior` = 'buy';
