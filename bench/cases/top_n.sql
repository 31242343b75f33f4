-- The ten highest amounts of each of 200,000 users, into nothing.
-- wanted: 1.3
SET 'state.backend.type' = 'rocksdb';
CREATE TABLE orders (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT) WITH (
  'connector' = 'kafka',
  'topic' = '${orders}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'format' = 'json'
);
CREATE TABLE best (user_id BIGINT, place BIGINT, item STRING, amount DOUBLE) WITH ('connector' = 'blackhole');
INSERT INTO best
SELECT user_id, place, item, amount
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY amount DESC) AS place FROM orders)
WHERE place <= 10;
