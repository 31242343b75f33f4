-- Clicks of 100,000 users with what their profiles said at that time; one record in eleven is of a profile, into nothing.
-- wanted: 1.3
-- state
-- rows: 500000
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
CREATE TABLE profiles (
  user_id BIGINT, level STRING, ts TIMESTAMP(3), note STRING,
  PRIMARY KEY (user_id) NOT ENFORCED, WATERMARK FOR ts AS ts
) WITH (
  'connector' = 'upsert-kafka',
  'topic' = '${profiles}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.bounded.mode' = 'latest-offset',
  'key.format' = 'json',
  'value.format' = 'json'
);
CREATE TABLE told (user_id BIGINT, page STRING, level STRING, ts TIMESTAMP(3)) WITH ('connector' = 'blackhole');
INSERT INTO told SELECT c.user_id, c.page, p.level, c.ts
FROM clicks AS c LEFT JOIN profiles FOR SYSTEM_TIME AS OF c.ts AS p ON c.user_id = p.user_id;
