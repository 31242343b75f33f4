-- Page views and visitors of every minute and region: the pv/uv script of Flink's upsert-kafka manual by the time of its
-- watermark. A minute is written once, when the watermark has passed it: views may come two seconds out of order, and the
-- last minute stays open until a later view comes. The job goes on; look from another window, or stop it with Ctrl-C
-- (with --bounded it ends, and closes the last minute, too, unless --checkpoint keeps it for the next run).
--
--     tidemill broker start --detach
--     tidemill topic write pageviews examples/topics/pageviews_per_minute/pageviews.jsonl
--     tidemill run --local examples/pageviews_per_minute.sql
--     tidemill topic read pageviews_per_minute
CREATE TABLE pageviews (
  user_id BIGINT,
  page_id BIGINT,
  view_time TIMESTAMP(3),
  user_region STRING,
  WATERMARK FOR view_time AS view_time - INTERVAL '2' SECOND
) WITH (
  'connector' = 'kafka',
  'topic' = 'pageviews',
  'properties.bootstrap.servers' = 'localhost:9092',
  'scan.startup.mode' = 'earliest-offset',
  'format' = 'json'
);

CREATE TABLE pageviews_per_minute (
  window_start TIMESTAMP(3),
  window_end TIMESTAMP(3),
  user_region STRING,
  pv BIGINT,
  uv BIGINT,
  PRIMARY KEY (window_start, window_end, user_region) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka',
  'topic' = 'pageviews_per_minute',
  'properties.bootstrap.servers' = 'localhost:9092',
  'key.format' = 'json',
  'value.format' = 'json'
);

INSERT INTO pageviews_per_minute
SELECT window_start, window_end, user_region, COUNT(*), COUNT(DISTINCT user_id)
FROM TABLE(TUMBLE(TABLE pageviews, DESCRIPTOR(view_time), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end, user_region;
