-- Page views and distinct users per region, 200,000 users, into nothing.
-- wanted: 1.5
-- state
-- rows: 1500000
-- quick: 600000
CREATE TABLE orders (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT) WITH (
  'connector' = 'kafka',
  'topic' = '${orders}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'format' = 'json'
);
CREATE TABLE visits (region STRING, pv BIGINT, uv BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO visits SELECT region, COUNT(*), COUNT(DISTINCT user_id) FROM orders GROUP BY region;
