-- Orders in euros: each with the exchange rate that held when it was placed, also when rates and orders arrive late.
--
--     tidemill run --local examples/temporal_join.sql
CREATE TABLE orders (
  order_id BIGINT,
  price DECIMAL(10, 2),
  currency STRING,
  order_time TIMESTAMP(3),
  WATERMARK FOR order_time AS order_time - INTERVAL '15' SECOND
) WITH (
  'connector' = 'kafka',
  'topic' = 'orders',
  'properties.bootstrap.servers' = 'localhost:9092',
  'scan.startup.mode' = 'earliest-offset',
  'format' = 'json'
);

-- An upsert-kafka table with a watermark keeps the versions of every key.
CREATE TABLE currency_rates (
  currency STRING,
  rate DECIMAL(12, 6),
  update_time TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL,
  WATERMARK FOR update_time AS update_time - INTERVAL '15' SECOND,
  PRIMARY KEY (currency) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka',
  'topic' = 'currency_rates',
  'properties.bootstrap.servers' = 'localhost:9092',
  'key.format' = 'json',
  'value.format' = 'json'
);

CREATE TABLE orders_in_euros (
  order_id BIGINT,
  euros DECIMAL(38, 2)
) WITH (
  'connector' = 'kafka',
  'topic' = 'orders_in_euros',
  'properties.bootstrap.servers' = 'localhost:9092',
  'format' = 'json'
);

INSERT INTO orders_in_euros
SELECT o.order_id, CAST(o.price * r.rate AS DECIMAL(38, 2))
FROM orders AS o
LEFT JOIN currency_rates FOR SYSTEM_TIME AS OF o.order_time AS r ON o.currency = r.currency;
