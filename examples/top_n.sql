-- The three best sold products of every category, kept up to date.
--
--     tidemill run --local examples/top_n.sql
CREATE TABLE sales (
  category STRING,
  product_id BIGINT,
  units INT
) WITH (
  'connector' = 'kafka',
  'topic' = 'sales',
  'properties.bootstrap.servers' = 'localhost:9092',
  'scan.startup.mode' = 'earliest-offset',
  'format' = 'json'
);

CREATE TABLE best_sold (
  category STRING,
  place BIGINT,
  product_id BIGINT,
  units INT,
  PRIMARY KEY (category, place) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka',
  'topic' = 'best_sold',
  'properties.bootstrap.servers' = 'localhost:9092',
  'key.format' = 'json',
  'value.format' = 'json'
);

INSERT INTO best_sold
SELECT category, place, product_id, units
FROM (
  SELECT
    category,
    product_id,
    units,
    ROW_NUMBER() OVER (PARTITION BY category ORDER BY units DESC) AS place
  FROM (SELECT category, product_id, SUM(units) AS units FROM sales GROUP BY category, product_id)
)
WHERE place <= 3;
