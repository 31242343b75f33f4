-- Five columns and an array of a JSON document into nothing.
-- wanted: 1.2
-- rows: 2000000
CREATE TABLE orders (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT, tags ARRAY<STRING>) WITH (
  'connector' = 'kafka',
  'topic' = '${tagged}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'format' = 'json'
);
CREATE TABLE hole (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT, tags ARRAY<STRING>) WITH ('connector' = 'blackhole');
INSERT INTO hole SELECT * FROM orders;
