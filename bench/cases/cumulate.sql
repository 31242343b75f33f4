-- Clicks of each of 100,000 users in ten seconds, told every two while they add up, into nothing.
-- wanted: 1.5
-- state
-- rows: 400000
-- compared: 150000
CREATE TABLE clicks (
  user_id BIGINT, page STRING, n INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
) WITH (
  'connector' = 'kafka',
  'topic' = '${clicks}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'format' = 'json'
);
CREATE TABLE counts (user_id BIGINT, started TIMESTAMP(3), ended TIMESTAMP(3), c BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO counts SELECT user_id, window_start, window_end, COUNT(*)
FROM TABLE(CUMULATE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)) GROUP BY user_id, window_start, window_end;
