-- Two upsert tables with 500,000 keys each, joined by key, into nothing.
-- wanted: 1.3
-- state
-- rows: 1600000
CREATE TABLE balances (id BIGINT, region STRING, amount BIGINT, note STRING, PRIMARY KEY (id) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka',
  'topic' = '${left}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.bounded.mode' = 'latest-offset',
  'key.format' = 'json',
  'value.format' = 'json'
);
CREATE TABLE limits (id BIGINT, region STRING, amount BIGINT, note STRING, PRIMARY KEY (id) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka',
  'topic' = '${right}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.bounded.mode' = 'latest-offset',
  'key.format' = 'json',
  'value.format' = 'json'
);
CREATE TABLE pairs (id BIGINT, amount BIGINT, most BIGINT, region STRING) WITH ('connector' = 'blackhole');
INSERT INTO pairs SELECT b.id, b.amount, l.amount, l.region FROM balances AS b JOIN limits AS l ON b.id = l.id;
