-- The same updates in debezium-avro-confluent, which Python decodes, into nothing: a record gives two rows.
-- rows: 1000000
CREATE TABLE orders (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT, note STRING) WITH (
  'connector' = 'kafka',
  'topic' = '${registered_changes}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'format' = 'debezium-avro-confluent',
  'debezium-avro-confluent.url' = '${REGISTRY}'
);
CREATE TABLE hole (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT, note STRING) WITH ('connector' = 'blackhole');
INSERT INTO hole SELECT * FROM orders;
