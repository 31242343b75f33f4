-- Clicks of each of 100,000 users in every ten seconds, into nothing.
-- wanted: 1.5
-- state
-- rows: 1500000
-- compared: 300000
-- quick: 600000
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
FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY user_id, window_start, window_end;
