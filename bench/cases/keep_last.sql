-- The last order of each of 200,000 users, into nothing.
-- wanted: 1.5
-- state
-- rows: 1000000
CREATE TABLE orders (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT, seen AS PROCTIME()) WITH (
  'connector' = 'kafka',
  'topic' = '${orders}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'format' = 'json'
);
CREATE TABLE newest (user_id BIGINT, item STRING, amount DOUBLE, region STRING) WITH ('connector' = 'blackhole');
INSERT INTO newest SELECT user_id, item, amount, region FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY seen DESC) AS place FROM orders
) WHERE place = 1;
