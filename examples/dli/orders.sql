-- The example of DLI's upsert-kafka manual: the newest state of every order.
-- Changed: addresses, group and topics are filled in, and the two tables are on two topics, because the manual's job would
-- read what it writes; the layout is that of `tidemill format`.
-- It reads what comes after its start, so that records are written when it says that it is ready, from another window.
--
--     tidemill broker start --detach
--     tidemill run --local examples/dli/orders.sql
--     tidemill topic write orders examples/dli/orders/orders.jsonl
--     tidemill topic read orders_by_id
CREATE TABLE orders (
  order_id STRING,
  order_channel STRING,
  order_time STRING,
  pay_amount DOUBLE,
  real_pay DOUBLE,
  pay_time STRING,
  user_id STRING,
  user_name STRING,
  area_id STRING
) WITH (
  'connector' = 'kafka',
  'topic' = 'orders',
  'properties.bootstrap.servers' = 'localhost:9092',
  'properties.group.id' = 'orders-by-id',
  'scan.startup.mode' = 'latest-offset',
  "format" = "json"
);

CREATE TABLE UPSERTKAFKASINK (
  order_id STRING,
  order_channel STRING,
  order_time STRING,
  pay_amount DOUBLE,
  real_pay DOUBLE,
  pay_time STRING,
  user_id STRING,
  user_name STRING,
  area_id STRING,
  PRIMARY KEY (order_id) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka',
  'topic' = 'orders_by_id',
  'properties.bootstrap.servers' = 'localhost:9092',
  'key.format' = 'json',
  'value.format' = 'json'
);

INSERT INTO UPSERTKAFKASINK SELECT * FROM orders;
