-- A script for Flink 1.10: its options are read as today's.
-- `tidemill translate --from flink-1.10 examples/flink110.sql` writes them so.
--
--     tidemill run --local --bounded examples/flink110.sql
CREATE TABLE user_log (
  user_id BIGINT,
  item_id BIGINT,
  behavior STRING
) WITH (
  'connector.type' = 'kafka',
  'connector.version' = 'universal',
  'connector.topic' = 'user_behavior',
  'connector.startup-mode' = 'earliest-offset',
  'connector.properties.0.key' = 'bootstrap.servers',
  'connector.properties.0.value' = 'localhost:9092',
  'connector.properties.1.key' = 'group.id',
  'connector.properties.1.value' = 'pv',
  'update-mode' = 'append',
  'format.type' = 'json',
  'format.derive-schema' = 'true',
  'format.fail-on-missing-field' = 'false'
);

CREATE TABLE purchases (
  user_id BIGINT,
  item_id BIGINT
) WITH (
  'connector.type' = 'kafka',
  'connector.version' = '0.11',
  'connector.topic' = 'purchases',
  'connector.properties.bootstrap.servers' = 'localhost:9092',
  'update-mode' = 'append',
  'format.type' = 'json'
);

INSERT INTO purchases SELECT user_id, item_id FROM user_log WHERE behavior = 'buy';
