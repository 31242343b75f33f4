-- Six columns of a record of 115 bytes, avro-confluent, which Python decodes, into nothing.
-- rows: 2000000
CREATE TABLE orders (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT, note STRING) WITH (
  'connector' = 'kafka',
  'topic' = '${registered}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'format' = 'avro-confluent',
  'avro-confluent.url' = '${REGISTRY}'
);
CREATE TABLE hole (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT, note STRING) WITH ('connector' = 'blackhole');
INSERT INTO hole SELECT * FROM orders;
