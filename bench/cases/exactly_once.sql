-- All columns of a JSON document from topic to topic, every row exactly once.
-- wanted: 1.2
-- checkpoints
-- rows: 2000000
CREATE TABLE orders (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT, note STRING) WITH (
  'connector' = 'kafka',
  'topic' = '${orders}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'format' = 'json'
);
CREATE TABLE copies (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT, note STRING) WITH (
  'connector' = 'kafka',
  'topic' = '${out}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'sink.delivery-guarantee' = 'exactly-once',
  'sink.transactional-id-prefix' = '${out}',
  'properties.transaction.timeout.ms' = '600000',
  'format' = 'json'
);
INSERT INTO copies SELECT * FROM orders;
