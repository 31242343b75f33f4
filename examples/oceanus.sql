-- A script of Oceanus, as its upsert-kafka manual has it: the newest name of every id. Oceanus writes Flink's SQL.
-- It reads what comes after its start, so that records are written when it says that it is ready, from another window.
--
--     tidemill broker start --detach
--     tidemill run --local examples/oceanus.sql
--     tidemill topic write Data-Input examples/topics/oceanus/Data-Input.jsonl
--     tidemill topic read Data-Output
CREATE TABLE `kafka_json_source_table` (
  `id` INT,
  `name` STRING
) WITH (
  -- 定义 Kafka 参数
  'connector' = 'kafka',
  'topic' = 'Data-Input', -- 替换为您要消费的 Topic
  'scan.startup.mode' = 'latest-offset',
  'properties.bootstrap.servers' = '172.28.28.13:9092', -- 替换为您的 Kafka 连接地址
  'properties.group.id' = 'testGroup',

  -- 定义数据格式 (JSON 格式)
  'format' = 'json',
  'json.fail-on-missing-field' = 'false',
  'json.ignore-parse-errors' = 'true'
);

CREATE TABLE kafka_upsert_sink_table (
  id INT,
  name STRING,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  -- 定义 Upsert Kafka 参数
  'connector' = 'upsert-kafka',
  'topic' = 'Data-Output',
  'properties.bootstrap.servers' = '172.28.28.13:9092',
  'key.format' = 'json',
  'value.format' = 'json'
);

INSERT INTO kafka_upsert_sink_table SELECT * FROM kafka_json_source_table;
