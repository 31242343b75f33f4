-- A line of 115 bytes as it is, raw, into nothing.
-- wanted: 1.2
-- rows: 4000000
CREATE TABLE orders (line STRING) WITH (
  'connector' = 'kafka',
  'topic' = '${lines}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'format' = 'raw'
);
CREATE TABLE hole (line STRING, length INT) WITH ('connector' = 'blackhole');
INSERT INTO hole SELECT line, CHAR_LENGTH(line) FROM orders;
