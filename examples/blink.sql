-- A script of Blink: keys and messages are bytes, options have bare names, the PRIMARY KEY is the record's key.
-- `tidemill translate --from blink examples/blink.sql` writes it as today's Flink.
--
--     tidemill run --local examples/blink.sql
create table source_kafka (
  messageKey VARBINARY,
  `message` VARBINARY,
  topic VARCHAR,
  `partition` INT,
  `offset` BIGINT,
  ts as to_timestamp(json_value(cast(`message` as VARCHAR), '$.time')),
  WATERMARK wk FOR ts as withOffset(ts, 2000)
) with (
  type = 'kafka010',
  topic = 'orders',
  `group.id` = 'copy',
  bootstrap.servers = 'localhost:9092',
  startupMode = 'EARLIEST'
);

create table sink_kafka (
  messageKey VARBINARY,
  `message` VARBINARY,
  PRIMARY KEY (messageKey)
) with (
  type = 'kafka010',
  topic = 'orders_by_name',
  bootstrap.servers = 'localhost:9092'
);

INSERT INTO
  sink_kafka
SELECT
  cast(json_value(cast(`message` as VARCHAR), '$.name') as VARBINARY) as messageKey,
  `message`
FROM
  source_kafka;
