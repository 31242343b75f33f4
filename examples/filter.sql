-- From one topic to another: bad records skipped, a few rows kept, where each came from written beside it.
--
--     tidemill broker start --detach
--     echo '{"key": "k1", "value": {"id": 1, "level": "ERROR", "text": "disk full"}, "headers": {"host": "a7"}}' \
--       | tidemill topic write logs
--     tidemill run --local --bounded --var BOOTSTRAP=localhost:9092 examples/filter.sql
--     tidemill topic read alarms
CREATE TABLE logs (
  id BIGINT,
  `level` STRING,
  `text` STRING,
  -- what Kafka knows about the record
  `partition` INT METADATA VIRTUAL,
  `offset` BIGINT METADATA VIRTUAL,
  written TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',
  headers MAP<STRING, BYTES> METADATA
) WITH (
  'connector' = 'kafka',
  'topic' = 'logs',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'properties.group.id' = 'alarms',
  'scan.startup.mode' = 'earliest-offset',
  'format' = 'json',
  'json.ignore-parse-errors' = 'true'
);

CREATE TABLE alarms (
  id BIGINT,
  `text` STRING,
  origin STRING,
  -- these two go into the record itself, not into its value
  written TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',
  headers MAP<STRING, BYTES> METADATA
) WITH (
  'connector' = 'kafka',
  'topic' = 'alarms',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'key.format' = 'json',
  'key.fields' = 'id',
  'value.format' = 'json'
);

INSERT INTO alarms
SELECT
  id,
  UPPER(`text`),
  CONCAT('logs/', CAST(`partition` AS STRING), '/', CAST(`offset` AS STRING)),
  written,
  headers
FROM logs
WHERE `level` IN ('ERROR', 'FATAL');
