-- A script of Blink: keys and messages are bytes, options have bare names, the PRIMARY KEY is the record's key.
-- `tidemill translate --from blink examples/blink.sql` writes it as today's Flink.
--
--     tidemill run --local examples/blink.sql
CREATE TABLE source_kafka (
  messageKey VARBINARY,
  `message` VARBINARY,
  topic VARCHAR,
  `partition` INT,
  `offset` BIGINT,
  ts AS to_timestamp(json_value(CAST(`message` AS VARCHAR), '$.time')),
  WATERMARK wk FOR ts AS withOffset(ts, 2000)
) WITH (
  type = 'kafka010',
  topic = 'orders',
  `group.id` = 'copy',
  bootstrap.servers = 'localhost:9092',
  startupMode = 'EARLIEST'
);

CREATE TABLE sink_kafka (
  messageKey VARBINARY,
  `message` VARBINARY,
  PRIMARY KEY (messageKey)
) WITH (
  type = 'kafka010',
  topic = 'orders_by_name',
  bootstrap.servers = 'localhost:9092'
);

INSERT INTO sink_kafka
SELECT CAST(json_value(CAST(`message` AS VARCHAR), '$.name') AS VARBINARY) AS messageKey, `message`
FROM source_kafka;
