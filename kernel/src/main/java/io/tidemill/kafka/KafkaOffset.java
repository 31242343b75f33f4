package io.tidemill.kafka;

import com.fasterxml.jackson.core.type.TypeReference;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.ObjLongConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.streaming.Offset;

/**
 * The next offset to read of every partition: {@code {"topic":{"0":12}}}.
 *
 * <p>Topics and partitions are in order, because after a restart Spark compares this text.
 */
final class KafkaOffset extends Offset {
  private static final TypeReference<TreeMap<String, TreeMap<Integer, Long>>> TYPE =
      new TypeReference<>() {};

  private final TreeMap<String, TreeMap<Integer, Long>> topics;
  private final String json;

  private KafkaOffset(TreeMap<String, TreeMap<Integer, Long>> topics) {
    this.topics = topics;
    this.json = Json.write(topics);
  }

  static KafkaOffset of(Map<TopicPartition, Long> offsets) {
    TreeMap<String, TreeMap<Integer, Long>> topics = new TreeMap<>();
    offsets.forEach(
        (tp, offset) ->
            topics.computeIfAbsent(tp.topic(), t -> new TreeMap<>()).put(tp.partition(), offset));
    return new KafkaOffset(topics);
  }

  static KafkaOffset parse(String json) {
    return new KafkaOffset(Json.read(json, TYPE));
  }

  /** Also for an offset that Spark has read back from its log and not asked us to parse. */
  static KafkaOffset of(Offset offset) {
    return offset instanceof KafkaOffset own ? own : parse(offset.json());
  }

  /** Null if the partition was not known when this offset was made. */
  Long get(TopicPartition tp) {
    Map<Integer, Long> partitions = topics.get(tp.topic());
    return partitions == null ? null : partitions.get(tp.partition());
  }

  void forEach(ObjLongConsumer<TopicPartition> action) {
    topics.forEach(
        (topic, partitions) ->
            partitions.forEach(
                (partition, offset) -> action.accept(new TopicPartition(topic, partition), offset)));
  }

  Map<TopicPartition, Long> toMap() {
    Map<TopicPartition, Long> map = new java.util.LinkedHashMap<>();
    forEach(map::put);
    return map;
  }

  Set<TopicPartition> partitions() {
    return toMap().keySet();
  }

  @Override
  public String json() {
    return json;
  }
}
