-- A script of DLI, as its upsert-kafka manual has it: the newest state of every order. DLI quotes options as it likes.
--
--     tidemill broker start --detach
--     echo '{"order_id": "202103251202020001", "order_channel": "miniAppShop", "pay_amount": "60.00"}' \
--       | tidemill topic write orders
--     tidemill run --local examples/dli.sql
CREATE TABLE orders (
  order_id string,
  order_channel string,
  order_time string,
  pay_amount double,
  real_pay double,
  pay_time string,
  user_id string,
  user_name string,
  area_id string
) WITH (
  'connector' = 'kafka',
  'topic' = 'orders',
  'properties.bootstrap.servers' = 'localhost:9092',
  'properties.group.id' = 'GroupId',
  'scan.startup.mode' = 'latest-offset',
  "format" = "json"
);

CREATE TABLE upsert_kafka_sink (
  order_id string,
  order_channel string,
  order_time string,
  pay_amount double,
  real_pay double,
  pay_time string,
  user_id string,
  user_name string,
  area_id string,
  PRIMARY KEY (order_id) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka',
  'topic' = 'orders_by_id',
  'properties.bootstrap.servers' = 'localhost:9092',
  'key.format' = 'json',
  'value.format' = 'json'
);

insert into upsert_kafka_sink select * from orders;
