-- Five columns and a map of a JSON document into nothing.
-- wanted: 1.2
-- rows: 2000000
CREATE TABLE orders (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT, marks MAP<STRING, STRING>) WITH (
  'connector' = 'kafka',
  'topic' = '${marked}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'format' = 'json'
);
CREATE TABLE hole (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT, marks MAP<STRING, STRING>) WITH ('connector' = 'blackhole');
INSERT INTO hole SELECT * FROM orders;
