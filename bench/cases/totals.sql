-- COUNT and SUM per user, 200,000 users, into an upsert topic.
-- wanted: 1.5
-- state
-- rows: 1000000
CREATE TABLE orders (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT) WITH (
  'connector' = 'kafka',
  'topic' = '${orders}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'format' = 'json'
);
CREATE TABLE totals (user_id BIGINT, c BIGINT, amount DOUBLE, PRIMARY KEY (user_id) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka',
  'topic' = '${out}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'key.format' = 'json',
  'value.format' = 'json'
);
INSERT INTO totals SELECT user_id, COUNT(*), SUM(amount) FROM orders GROUP BY user_id;
