-- The example of Oceanus' upsert-kafka manual: the newest name of every id.
-- Changed: the addresses; the layout is that of `tidemill format`.
-- It reads what comes after its start, so that records are written when it says that it is ready, from another window.
--
--     tidemill broker start --detach
--     tidemill run --local examples/oceanus/upsert.sql
--     tidemill topic write Data-Input examples/oceanus/upsert/Data-Input.jsonl
--     tidemill topic read topic
CREATE TABLE `kafka_json_source_table` (
  `id` INT,
  `name` STRING
) WITH (
  -- 定义 Kafka 参数
  'connector' = 'kafka',
  'topic' = 'Data-Input', -- 替换为您要消费的 Topic
  'scan.startup.mode' = 'latest-offset', -- 可以是 latest-offset / earliest-offset / specific-offsets / group-offsets / timestamp 的任何一种
  'properties.bootstrap.servers' = 'localhost:9092', -- 替换为您的 Kafka 连接地址
  'properties.group.id' = 'testGroup', -- 必选参数, 一定要指定 Group ID

  -- 定义数据格式 (JSON 格式)
  'format' = 'json',
  'json.fail-on-missing-field' = 'false', -- 如果设置为 false, 则遇到缺失字段不会报错。
  'json.ignore-parse-errors' = 'true' -- 如果设置为 true，则忽略任何解析报错。
);

CREATE TABLE kafka_upsert_sink_table (
  id INT,
  name STRING,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  -- 定义 Upsert Kafka 参数
  'connector' = 'upsert-kafka', -- 选择 connector
  'topic' = 'topic', -- 替换为您要消费的 Topic
  'properties.bootstrap.servers' = 'localhost:9092', -- 替换为您的 Kafka 连接地址
  'key.format' = 'json', -- 定义 key 数据格式
  'value.format' = 'json' -- 定义value 数据格式
);

-- 计算 pv、uv 并插入到 upsert-kafka sink
INSERT INTO kafka_upsert_sink_table SELECT * FROM kafka_json_source_table;
