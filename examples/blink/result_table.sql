-- The example of Blink's Kafka manual: two columns of text as the key and the message of records.
-- Changed: topic and address are filled in, and `datahub_input` is a Kafka table, whose bytes are read as text. A record
-- without a key stays one, and one without a value deletes.
--
--     tidemill broker start --detach
--     tidemill topic write names examples/blink/result_table/names.jsonl
--     tidemill run --local --bounded examples/blink/result_table.sql
--     tidemill topic read names_by_id
CREATE TABLE datahub_input (
  messageKey VARBINARY,
  `message` VARBINARY,
  id AS CAST(messageKey AS VARCHAR),
  nm AS CAST(`message` AS VARCHAR)
) WITH (
  type = 'kafka010',
  topic = 'names',
  bootstrap.servers = 'localhost:9092',
  startupMode = 'EARLIEST'
);

CREATE TABLE sink_kafka (
  messageKey VARBINARY,
  `message` VARBINARY,
  PRIMARY KEY (messageKey)
) WITH (
  type = 'kafka010',
  topic = 'names_by_id',
  bootstrap.servers = 'localhost:9092'
);

INSERT INTO sink_kafka
SELECT CAST(id AS VARBINARY) AS messageKey, CAST(nm AS VARBINARY) AS `message` FROM datahub_input;
