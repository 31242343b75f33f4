-- Orders added up per shop and minute, and per ten minutes from every fifth on, when the watermark ends the window.
--
--     tidemill run --local examples/windows.sql
CREATE TABLE orders (
  order_id BIGINT,
  shop STRING,
  amount DECIMAL(10, 2),
  order_time TIMESTAMP(3),
  WATERMARK FOR order_time AS order_time - INTERVAL '5' SECOND
) WITH (
  'connector' = 'kafka',
  'topic' = 'orders',
  'properties.bootstrap.servers' = 'localhost:9092',
  'scan.startup.mode' = 'earliest-offset',
  'format' = 'json'
);

CREATE TABLE sales_per_minute (
  shop STRING,
  window_start TIMESTAMP(3),
  window_end TIMESTAMP(3),
  orders BIGINT,
  total DECIMAL(38, 2)
) WITH (
  'connector' = 'kafka',
  'topic' = 'sales_per_minute',
  'properties.bootstrap.servers' = 'localhost:9092',
  'format' = 'json'
);

CREATE TABLE sales_of_ten_minutes (
  shop STRING,
  window_start TIMESTAMP(3),
  window_end TIMESTAMP(3),
  orders BIGINT,
  total DECIMAL(38, 2)
) WITH (
  'connector' = 'kafka',
  'topic' = 'sales_of_ten_minutes',
  'properties.bootstrap.servers' = 'localhost:9092',
  'format' = 'json'
);

EXECUTE STATEMENT SET
BEGIN
  INSERT INTO sales_per_minute
  SELECT shop, window_start, window_end, COUNT(*), SUM(amount)
  FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(order_time), INTERVAL '1' MINUTE))
  GROUP BY shop, window_start, window_end;

  INSERT INTO sales_of_ten_minutes
  SELECT shop, window_start, window_end, COUNT(*), SUM(amount)
  FROM TABLE(HOP(TABLE orders, DESCRIPTOR(order_time), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES))
  GROUP BY shop, window_start, window_end;
END;
