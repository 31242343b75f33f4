-- Upserts of a million keys, a fifth of them deletes, summed up per region, into nothing.
-- wanted: 2.0
-- state
-- rows: 2000000
CREATE TABLE balances (id BIGINT, region STRING, amount BIGINT, note STRING, PRIMARY KEY (id) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka',
  'topic' = '${upserts}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.bounded.mode' = 'latest-offset',
  'key.format' = 'json',
  'value.format' = 'json'
);
CREATE TABLE totals (region STRING, c BIGINT, amount BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO totals SELECT region, COUNT(*), SUM(amount) FROM balances GROUP BY region;
