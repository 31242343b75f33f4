-- Clicks of 100,000 users with the visits that began at most two seconds before, a fifth as many pairs, into nothing. There
-- are as many visits as clicks; a rate is that of either.
-- wanted: 1.5
-- state
-- rows: 400000
-- compared: 100000
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
CREATE TABLE visits (
  user_id BIGINT, page STRING, n INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
) WITH (
  'connector' = 'kafka',
  'topic' = '${visits}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'format' = 'json'
);
CREATE TABLE pairs (user_id BIGINT, page STRING, entry STRING, ts TIMESTAMP(3)) WITH ('connector' = 'blackhole');
INSERT INTO pairs SELECT c.user_id, c.page, v.page, c.ts FROM clicks AS c JOIN visits AS v
ON c.user_id = v.user_id AND c.ts BETWEEN v.ts AND v.ts + INTERVAL '2' SECOND;
