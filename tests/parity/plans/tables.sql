-- The tables that every statement in this folder may use; nothing is read or written, only planned.

-- Append-only, with both time attributes.
CREATE TABLE orders (
  order_id BIGINT, user_id STRING, product STRING, currency STRING, amount DECIMAL(10, 2), quantity INT,
  order_time TIMESTAMP(3), proc AS PROCTIME(),
  WATERMARK FOR order_time AS order_time - INTERVAL '5' SECOND
) WITH (
  'connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'b:9092',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
CREATE TABLE payments (
  payment_id BIGINT, order_id BIGINT, user_id STRING, paid DECIMAL(10, 2),
  pay_time TIMESTAMP(3), proc AS PROCTIME(),
  WATERMARK FOR pay_time AS pay_time - INTERVAL '5' SECOND
) WITH (
  'connector' = 'kafka', 'topic' = 'payments', 'properties.bootstrap.servers' = 'b:9092',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json');

-- Append-only, its rowtime is the record's timestamp, with local time zone.
CREATE TABLE clicks (
  user_id STRING, url STRING, click_time TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
  WATERMARK FOR click_time AS click_time
) WITH (
  'connector' = 'kafka', 'topic' = 'clicks', 'properties.bootstrap.servers' = 'b:9092',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json');

-- Append-only, without time attributes, with nested columns and some that cannot be null.
CREATE TABLE events (
  id BIGINT NOT NULL, k STRING, v INT, d DECIMAL(10, 2), ts TIMESTAMP(3), flag BOOLEAN,
  tags ARRAY<STRING>, props MAP<STRING, STRING>, place ROW<city STRING, zip INT NOT NULL>,
  items ARRAY<ROW<sku STRING, n INT>>
) WITH (
  'connector' = 'kafka', 'topic' = 'events', 'properties.bootstrap.servers' = 'b:9092',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
CREATE TABLE more_events (
  id BIGINT NOT NULL, k STRING, v INT
) WITH (
  'connector' = 'kafka', 'topic' = 'more_events', 'properties.bootstrap.servers' = 'b:9092',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json');

-- Upserts by key: without and with time attributes, and by a key of two columns.
CREATE TABLE users (
  user_id STRING, name STRING, city STRING, age INT, proc AS PROCTIME(),
  PRIMARY KEY (user_id) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'users', 'properties.bootstrap.servers' = 'b:9092',
  'key.format' = 'json', 'value.format' = 'json');
CREATE TABLE rates (
  currency STRING, rate DECIMAL(10, 4), update_time TIMESTAMP(3),
  WATERMARK FOR update_time AS update_time - INTERVAL '5' SECOND,
  PRIMARY KEY (currency) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'rates', 'properties.bootstrap.servers' = 'b:9092',
  'key.format' = 'json', 'value.format' = 'json');
CREATE TABLE stock (
  shop STRING, product STRING, quantity INT,
  PRIMARY KEY (shop, product) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'stock', 'properties.bootstrap.servers' = 'b:9092',
  'key.format' = 'json', 'value.format' = 'json');

-- Changes of a database: with a key, without one, and with a rowtime.
CREATE TABLE products (
  product STRING, price DECIMAL(10, 2), category STRING,
  PRIMARY KEY (product) NOT ENFORCED
) WITH (
  'connector' = 'kafka', 'topic' = 'products', 'properties.bootstrap.servers' = 'b:9092',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'debezium-json');
CREATE TABLE ledger (
  account STRING, amount BIGINT
) WITH (
  'connector' = 'kafka', 'topic' = 'ledger', 'properties.bootstrap.servers' = 'b:9092',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'debezium-json');
CREATE TABLE prices (
  product STRING, price DECIMAL(10, 2), price_time TIMESTAMP(3),
  WATERMARK FOR price_time AS price_time,
  PRIMARY KEY (product) NOT ENFORCED
) WITH (
  'connector' = 'kafka', 'topic' = 'prices', 'properties.bootstrap.servers' = 'b:9092',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'debezium-json');

-- Sinks: append-only, changes, upserts by several keys, and those that take anything.
CREATE TABLE out_append (k STRING, c BIGINT) WITH (
  'connector' = 'kafka', 'topic' = 'out_append', 'properties.bootstrap.servers' = 'b:9092', 'format' = 'json');
CREATE TABLE out_wide (k STRING, c BIGINT, t TIMESTAMP(3)) WITH (
  'connector' = 'kafka', 'topic' = 'out_wide', 'properties.bootstrap.servers' = 'b:9092', 'format' = 'json');
CREATE TABLE out_changes (k STRING, c BIGINT) WITH (
  'connector' = 'kafka', 'topic' = 'out_changes', 'properties.bootstrap.servers' = 'b:9092', 'format' = 'debezium-json');
CREATE TABLE out_changes_by_k (k STRING, c BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH (
  'connector' = 'kafka', 'topic' = 'out_changes_by_k', 'properties.bootstrap.servers' = 'b:9092', 'format' = 'debezium-json');
CREATE TABLE out_by_k (k STRING, c BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'out_by_k', 'properties.bootstrap.servers' = 'b:9092',
  'key.format' = 'json', 'value.format' = 'json');
CREATE TABLE out_by_c (k STRING, c BIGINT, PRIMARY KEY (c) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'out_by_c', 'properties.bootstrap.servers' = 'b:9092',
  'key.format' = 'json', 'value.format' = 'json');
CREATE TABLE out_by_k_c (k STRING, c BIGINT, PRIMARY KEY (k, c) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'out_by_k_c', 'properties.bootstrap.servers' = 'b:9092',
  'key.format' = 'json', 'value.format' = 'json');
CREATE TABLE out_print (k STRING, c BIGINT) WITH ('connector' = 'print');
CREATE TABLE out_print_by_k (k STRING, c BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'print');
CREATE TABLE out_nowhere (k STRING, c BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE out_nowhere_by_k (k STRING, c BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'blackhole');
