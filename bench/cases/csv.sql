-- Six columns of a line of 115 bytes, csv, into nothing.
-- wanted: 1.2
-- rows: 4000000
CREATE TABLE orders (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT, note STRING) WITH (
  'connector' = 'kafka',
  'topic' = '${lines}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'format' = 'csv'
);
CREATE TABLE hole (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT, note STRING) WITH ('connector' = 'blackhole');
INSERT INTO hole SELECT * FROM orders;
