-- Page views and visitors per region, kept up to date in an upsert-kafka table: the example of Flink's upsert-kafka
-- manual, with json for both formats and the watermark on view_time (the manual's `viewtime` is a slip).
--
--     tidemill broker start --detach
--     tidemill topic write pageviews examples/topics/pageviews/pageviews.jsonl
--     tidemill run --local --bounded examples/pageviews.sql
--     tidemill topic read pageviews_by_region
CREATE TABLE pageviews_per_region (
  user_region STRING,
  pv BIGINT,
  uv BIGINT,
  PRIMARY KEY (user_region) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka',
  'topic' = 'pageviews_by_region',
  'properties.bootstrap.servers' = 'localhost:9092',
  'key.format' = 'json',
  'value.format' = 'json'
);

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

INSERT INTO pageviews_per_region
SELECT user_region, COUNT(*), COUNT(DISTINCT user_id) FROM pageviews GROUP BY user_region;
