-- Who was changed when: every change of an upsert-kafka table as a row of a log, deletes included.
--
--     tidemill broker start --detach
--     tidemill topic write customers examples/topics/audit/customers.jsonl
--     tidemill run --local --bounded examples/audit.sql
--     tidemill topic read customers_audit
CREATE TABLE customers (
  id BIGINT,
  name STRING,
  row_kind STRING METADATA VIRTUAL,
  changed_at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka',
  'topic' = 'customers',
  'properties.bootstrap.servers' = 'localhost:9092',
  'key.format' = 'json',
  'value.format' = 'json',
  'scan.as-append' = 'true'
);

CREATE TABLE customers_audit (
  changed_at TIMESTAMP_LTZ(3),
  what STRING,
  id BIGINT,
  name STRING
) WITH (
  'connector' = 'kafka',
  'topic' = 'customers_audit',
  'properties.bootstrap.servers' = 'localhost:9092',
  'format' = 'json'
);

INSERT INTO customers_audit SELECT changed_at, row_kind, id, name FROM customers;
