-- Five columns of a JSON document into nothing.
-- wanted: 1.8
-- rows: 4000000
-- quick: 2000000
CREATE TABLE orders (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT) WITH (
  'connector' = 'kafka',
  'topic' = '${orders}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'format' = 'json'
);
CREATE TABLE hole (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT) WITH ('connector' = 'blackhole');
INSERT INTO hole SELECT * FROM orders;
