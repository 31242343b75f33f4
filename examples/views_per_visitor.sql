-- The result table of Flink's upsert-kafka manual, read again: a region that leaves it leaves the table made of it, too.
-- examples/pageviews.sql writes it; so does the second line.
--
--     tidemill broker start --detach
--     tidemill topic write pageviews_by_region examples/topics/views_per_visitor/pageviews_by_region.jsonl
--     tidemill run --local --bounded examples/views_per_visitor.sql
--     tidemill topic read views_per_visitor
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

CREATE TABLE views_per_visitor (
  user_region STRING,
  pv_per_visitor DOUBLE,
  PRIMARY KEY (user_region) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka',
  'topic' = 'views_per_visitor',
  'properties.bootstrap.servers' = 'localhost:9092',
  'key.format' = 'json',
  'value.format' = 'json'
);

INSERT INTO views_per_visitor SELECT user_region, CAST(pv AS DOUBLE) / uv FROM pageviews_per_region;
