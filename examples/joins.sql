-- Orders with their payments, by an interval join that forgets what can no longer meet, and with the newest customer.
--
--     tidemill run --local examples/joins.sql
CREATE TABLE orders (
    order_id BIGINT,
    customer_id BIGINT,
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

CREATE TABLE paid_orders (
    order_id BIGINT,
    name STRING,
    amount DECIMAL(10, 2),
    pay_method STRING,
    PRIMARY KEY (order_id) NOT ENFORCED
) WITH (
    'connector' = 'upsert-kafka',
    'topic' = 'paid_orders',
    'properties.bootstrap.servers' = 'localhost:9092',
    'key.format' = 'json',
    'value.format' = 'json'
);

CREATE VIEW paid AS
SELECT o.order_id, o.customer_id, o.amount, p.pay_method
FROM orders AS o
JOIN payments AS p
    ON o.order_id = p.order_id
    AND p.pay_time BETWEEN o.order_time AND o.order_time + INTERVAL '1' HOUR;

INSERT INTO paid_orders
SELECT paid.order_id, c.name, paid.amount, paid.pay_method
FROM paid
LEFT JOIN customers AS c ON paid.customer_id = c.customer_id;
