-- COUNT and SUM per user, 200,000 users, into nothing.
-- wanted: 2.0
-- state
-- rows: 3000000
-- quick: 1500000
CREATE TABLE orders (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT) WITH (
  'connector' = 'kafka',
  'topic' = '${orders}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'format' = 'json'
);
CREATE TABLE totals (user_id BIGINT, c BIGINT, amount DOUBLE) WITH ('connector' = 'blackhole');
INSERT INTO totals SELECT user_id, COUNT(*), SUM(amount) FROM orders GROUP BY user_id;
