-- COUNT and SUM per group, 100 groups, into nothing.
-- wanted: 2.0
-- state
-- rows: 4000000
CREATE TABLE orders (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT) WITH (
  'connector' = 'kafka',
  'topic' = '${orders}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'format' = 'json'
);
CREATE TABLE totals (g BIGINT, c BIGINT, amount DOUBLE) WITH ('connector' = 'blackhole');
INSERT INTO totals SELECT MOD(user_id, 100), COUNT(*), SUM(amount) FROM orders GROUP BY MOD(user_id, 100);
