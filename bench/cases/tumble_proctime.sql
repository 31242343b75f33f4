-- Clicks of each of 10 groups in every second of the machine's clock, into nothing.
-- wanted: 1.5
-- state
-- rows: 1500000
-- totals: c by g
CREATE TABLE clicks (
  user_id BIGINT, page STRING, n INT, ts TIMESTAMP(3), seen AS PROCTIME()
) WITH (
  'connector' = 'kafka',
  'topic' = '${clicks}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'format' = 'json'
);
CREATE VIEW grouped AS SELECT MOD(user_id, 10) AS g, seen FROM clicks;
CREATE TABLE counts (g BIGINT, started TIMESTAMP(3), c BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO counts SELECT g, window_start, COUNT(*)
FROM TABLE(TUMBLE(TABLE grouped, DESCRIPTOR(seen), INTERVAL '1' SECOND)) GROUP BY g, window_start, window_end;
