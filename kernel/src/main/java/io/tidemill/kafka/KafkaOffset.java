package io.tidemill.kafka;

import com.fasterxml.jackson.core.type.TypeReference;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.ObjLongConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.streaming.Offset;

/**
 * The next offset to read of every partition: {@code {"#ids":{"topic":"x2…"},"topic":{"0":12}}}. The
 * topic's id is that of the broker: a topic that is removed and made anew has the same name and
 * another id, and an offset says nothing about it.
 *
 * <p>Topics and partitions are in order, because after a restart Spark compares this text.
 */
final class KafkaOffset extends Offset {
  private static final TypeReference<TreeMap<String, TreeMap<String, String>>> TYPE =
      new TypeReference<>() {};

  /** Not a name that a topic can have. */
  private static final String IDS = "#ids";

  private final TreeMap<String, TreeMap<Integer, Long>> topics;
  private final TreeMap<String, String> ids;
  private final String json;

  private KafkaOffset(
      TreeMap<String, TreeMap<Integer, Long>> topics, TreeMap<String, String> ids) {
    this.topics = topics;
    this.ids = ids;
    TreeMap<String, Object> all = new TreeMap<>(topics);
    if (!ids.isEmpty()) {
      all.put(IDS, ids);
    }
    this.json = Json.write(all);
  }

  /** With no word about the topics' ids. */
  static KafkaOffset of(Map<TopicPartition, Long> offsets) {
    return of(offsets, Map.of());
  }

  static KafkaOffset of(Map<TopicPartition, Long> offsets, Map<String, String> ids) {
    TreeMap<String, TreeMap<Integer, Long>> topics = new TreeMap<>();
    offsets.forEach(
        (tp, offset) ->
            topics.computeIfAbsent(tp.topic(), t -> new TreeMap<>()).put(tp.partition(), offset));
    return new KafkaOffset(topics, new TreeMap<>(ids));
  }

  static KafkaOffset parse(String json) {
    TreeMap<String, TreeMap<String, String>> all = Json.read(json, TYPE);
    TreeMap<String, String> ids = all.remove(IDS);
    TreeMap<String, TreeMap<Integer, Long>> topics = new TreeMap<>();
    all.forEach(
        (topic, offsets) -> {
          TreeMap<Integer, Long> partitions = new TreeMap<>();
          offsets.forEach((p, offset) -> partitions.put(Integer.valueOf(p), Long.valueOf(offset)));
          topics.put(topic, partitions);
        });
    return new KafkaOffset(topics, ids == null ? new TreeMap<>() : ids);
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

  /** The ids of the topics, as far as they were known when this offset was made. */
  Map<String, String> ids() {
    return ids;
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
