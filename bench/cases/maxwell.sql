-- The same updates as Maxwell writes them, maxwell-json, into nothing: a record gives two rows.
-- wanted: 1.2
-- rows: 1500000
CREATE TABLE orders (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT) WITH (
  'connector' = 'kafka',
  'topic' = '${maxwell}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'format' = 'maxwell-json'
);
CREATE TABLE hole (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT) WITH ('connector' = 'blackhole');
INSERT INTO hole SELECT * FROM orders;
