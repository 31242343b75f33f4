-- The last row of each of 200,000 users, by arrival, into nothing.
-- wanted: 1.5
SET 'state.backend.type' = 'rocksdb';
CREATE TABLE orders (
  user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT, seen AS PROCTIME()
) WITH (
  'connector' = 'kafka',
  'topic' = '${orders}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'format' = 'json'
);
CREATE TABLE latest (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT) WITH ('connector' = 'blackhole');
INSERT INTO latest
SELECT user_id, item, amount, region, n
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY seen DESC) AS place FROM orders)
WHERE place = 1;
