-- A source table of Blink's: the record's key and message as bytes, its topic, partition and offset beside them, a
-- watermark of Blink's form. Every order goes out under the name of its customer.
-- `tidemill translate --from blink examples/blink/source_table.sql` writes it as today's Flink.
--
--     tidemill broker start --detach
--     tidemill topic write blink_orders examples/blink/source_table/blink_orders.jsonl
--     tidemill run --local --bounded examples/blink/source_table.sql
--     tidemill topic read orders_by_name
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
  topic = 'blink_orders',
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
