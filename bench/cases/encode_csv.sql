-- Six columns of a line from topic to topic, csv both ways.
-- wanted: 1.2
-- rows: 2000000
CREATE TABLE orders (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT, note STRING) WITH (
  'connector' = 'kafka',
  'topic' = '${lines}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'format' = 'csv'
);
CREATE TABLE copies (user_id BIGINT, item STRING, amount DOUBLE, region STRING, n INT, note STRING) WITH (
  'connector' = 'kafka',
  'topic' = '${out}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'format' = 'csv'
);
INSERT INTO copies SELECT * FROM orders;
