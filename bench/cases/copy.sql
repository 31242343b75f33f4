-- From topic to topic with a projection and a filter, json both ways.
-- wanted: 1.2
-- rows: 2000000
CREATE TABLE orders (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT) WITH (
  'connector' = 'kafka',
  'topic' = '${orders}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'format' = 'json'
);
CREATE TABLE dear (user_id BIGINT, item STRING, amount DOUBLE) WITH (
  'connector' = 'kafka',
  'topic' = '${out}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'format' = 'json'
);
INSERT INTO dear SELECT user_id, UPPER(item), amount * 2 FROM orders WHERE n < 9;
