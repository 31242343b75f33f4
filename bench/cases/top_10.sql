-- The ten dearest orders of each of 200,000 users, into nothing.
-- wanted: 1.3
-- state
-- rows: 1500000
CREATE TABLE orders (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT) WITH (
  'connector' = 'kafka',
  'topic' = '${orders}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'format' = 'json'
);
CREATE TABLE dearest (user_id BIGINT, item STRING, amount DOUBLE) WITH ('connector' = 'blackhole');
INSERT INTO dearest SELECT user_id, item, amount FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY amount DESC) AS place FROM orders
) WHERE place <= 10;
