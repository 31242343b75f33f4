-- A script of DLI, as its upsert-kafka manual has it: the newest state of every order. DLI quotes options as it likes.
-- It reads what comes after its start, so that records are written when it says that it is ready, from another window.
--
--     tidemill broker start --detach
--     tidemill run --local examples/dli.sql
--     tidemill topic write orders examples/topics/dli/orders.jsonl
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
  'properties.group.id' = 'GroupId',
  'scan.startup.mode' = 'latest-offset',
  "format" = "json"
);

CREATE TABLE upsert_kafka_sink (
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

INSERT INTO upsert_kafka_sink SELECT * FROM orders;
