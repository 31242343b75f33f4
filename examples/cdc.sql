-- Changes of a database table that Debezium writes into Kafka, folded into customers per city.
--
--     tidemill run --local examples/cdc.sql
CREATE TABLE customers (
  id BIGINT,
  name STRING,
  city STRING,
  changed_at TIMESTAMP_LTZ(3) METADATA FROM 'value.source.timestamp' VIRTUAL,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'kafka',
  'topic' = 'dbserver1.inventory.customers',
  'properties.bootstrap.servers' = 'localhost:9092',
  'properties.group.id' = 'cities',
  'scan.startup.mode' = 'earliest-offset',
  'format' = 'debezium-json'
);

CREATE TABLE customers_per_city (
  city STRING,
  customers BIGINT,
  last_change TIMESTAMP_LTZ(3),
  PRIMARY KEY (city) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka',
  'topic' = 'customers_per_city',
  'properties.bootstrap.servers' = 'localhost:9092',
  'key.format' = 'json',
  'value.format' = 'json'
);

INSERT INTO customers_per_city SELECT city, COUNT(*), MAX(changed_at) FROM customers GROUP BY city;
