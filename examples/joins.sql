-- Two joins: orders with their payments, forgetting what can no longer meet, and the newest address of every customer.
--
--     tidemill run --local examples/joins.sql
CREATE TABLE orders (
  order_id BIGINT,
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

CREATE TABLE payments (
  order_id BIGINT,
  pay_method STRING,
  pay_time TIMESTAMP(3),
  WATERMARK FOR pay_time AS pay_time - INTERVAL '5' SECOND
) WITH (
  'connector' = 'kafka',
  'topic' = 'payments',
  'properties.bootstrap.servers' = 'localhost:9092',
  'scan.startup.mode' = 'earliest-offset',
  'format' = 'json'
);

CREATE TABLE paid_orders (
  order_id BIGINT,
  amount DECIMAL(10, 2),
  pay_method STRING
) WITH (
  'connector' = 'kafka',
  'topic' = 'paid_orders',
  'properties.bootstrap.servers' = 'localhost:9092',
  'format' = 'json'
);

-- Rows of both tables come and go: an update of either side updates the result.
CREATE TABLE customers (
  customer_id BIGINT,
  name STRING,
  PRIMARY KEY (customer_id) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka',
  'topic' = 'customers',
  'properties.bootstrap.servers' = 'localhost:9092',
  'key.format' = 'json',
  'value.format' = 'json'
);

CREATE TABLE addresses (
  customer_id BIGINT,
  city STRING,
  PRIMARY KEY (customer_id) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka',
  'topic' = 'addresses',
  'properties.bootstrap.servers' = 'localhost:9092',
  'key.format' = 'json',
  'value.format' = 'json'
);

CREATE TABLE address_book (
  customer_id BIGINT,
  name STRING,
  city STRING,
  PRIMARY KEY (customer_id) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka',
  'topic' = 'address_book',
  'properties.bootstrap.servers' = 'localhost:9092',
  'key.format' = 'json',
  'value.format' = 'json'
);

INSERT INTO paid_orders
SELECT o.order_id, o.amount, p.pay_method
FROM orders AS o
JOIN payments AS p
  ON o.order_id = p.order_id
    AND p.pay_time BETWEEN o.order_time AND o.order_time + INTERVAL '1' HOUR;

INSERT INTO address_book
SELECT c.customer_id, c.name, a.city
FROM customers AS c
LEFT JOIN addresses AS a ON c.customer_id = a.customer_id;
