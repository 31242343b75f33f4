package io.tidemill.kafka;

import com.fasterxml.jackson.core.type.TypeReference;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.ObjLongConsumer;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.streaming.Offset;

/**
 * The next offset to read of every partition: {@code {"#ids":{"topic":"x2…"},"topic":{"0":12}}}. The
 * topic's id is that of the broker: a topic that is removed and made anew has the same name and
 * another id, and an offset says nothing about it.
 *
 * <p>For those who look at time there are, beside them, {@code "#idle":{"topic":"0,3"}}, the
 * partitions for which nobody waits, and {@code "#time":{"end":"true","tick":"7"}}: whether nothing
 * comes any more, and a number that grows when a batch is wanted without anything to read. What was
 * decided by the machine's clock is decided the same way when a batch is repeated, because it is here.
 *
 * <p>Topics and partitions are in order, because after a restart Spark compares this text.
 */
final class KafkaOffset extends Offset {
  private static final TypeReference<TreeMap<String, TreeMap<String, String>>> TYPE =
      new TypeReference<>() {};

  /** Not a name that a topic can have. */
  private static final String IDS = "#ids";
  private static final String IDLE = "#idle";
  private static final String TIME = "#time";

  /**
   * @param idle partitions for which nobody waits
   * @param ended whether nothing comes any more
   * @param tick a number that grows when a batch is wanted
   */
  record Time(Set<TopicPartition> idle, boolean ended, long tick) {
    static final Time NONE = new Time(Set.of(), false, 0);

    private static Time parse(Map<String, String> idle, Map<String, String> time) {
      Set<TopicPartition> partitions = new HashSet<>();
      if (idle != null) {
        idle.forEach(
            (topic, numbers) -> {
              for (String number : numbers.split(",")) {
                partitions.add(new TopicPartition(topic, Integer.parseInt(number)));
              }
            });
      }
      Map<String, String> told = time == null ? Map.of() : time;
      return new Time(
          partitions, told.containsKey("end"), Long.parseLong(told.getOrDefault("tick", "0")));
    }

    private TreeMap<String, String> idleText() {
      TreeMap<String, TreeSet<Integer>> topics = new TreeMap<>();
      idle.forEach(tp -> topics.computeIfAbsent(tp.topic(), t -> new TreeSet<>()).add(tp.partition()));
      TreeMap<String, String> text = new TreeMap<>();
      topics.forEach(
          (topic, numbers) ->
              text.put(topic, numbers.stream().map(String::valueOf).collect(Collectors.joining(","))));
      return text;
    }

    private TreeMap<String, String> text() {
      TreeMap<String, String> text = new TreeMap<>();
      if (ended) {
        text.put("end", "true");
      }
      if (tick > 0) {
        text.put("tick", Long.toString(tick));
      }
      return text;
    }
  }

  private final TreeMap<String, TreeMap<Integer, Long>> topics;
  private final TreeMap<String, String> ids;
  private final Time time;
  private final String json;

  private KafkaOffset(
      TreeMap<String, TreeMap<Integer, Long>> topics, TreeMap<String, String> ids, Time time) {
    this.topics = topics;
    this.ids = ids;
    this.time = time;
    TreeMap<String, Object> all = new TreeMap<>(topics);
    if (!ids.isEmpty()) {
      all.put(IDS, ids);
    }
    if (!time.idle().isEmpty()) {
      all.put(IDLE, time.idleText());
    }
    if (!time.text().isEmpty()) {
      all.put(TIME, time.text());
    }
    this.json = Json.write(all);
  }

  /** With no word about the topics' ids. */
  static KafkaOffset of(Map<TopicPartition, Long> offsets) {
    return of(offsets, Map.of());
  }

  static KafkaOffset of(Map<TopicPartition, Long> offsets, Map<String, String> ids) {
    return of(offsets, ids, Time.NONE);
  }

  static KafkaOffset of(Map<TopicPartition, Long> offsets, Map<String, String> ids, Time time) {
    TreeMap<String, TreeMap<Integer, Long>> topics = new TreeMap<>();
    offsets.forEach(
        (tp, offset) ->
            topics.computeIfAbsent(tp.topic(), t -> new TreeMap<>()).put(tp.partition(), offset));
    return new KafkaOffset(topics, new TreeMap<>(ids), time);
  }

  static KafkaOffset parse(String json) {
    TreeMap<String, TreeMap<String, String>> all = Json.read(json, TYPE);
    TreeMap<String, String> ids = all.remove(IDS);
    Time time = Time.parse(all.remove(IDLE), all.remove(TIME));
    TreeMap<String, TreeMap<Integer, Long>> topics = new TreeMap<>();
    all.forEach(
        (topic, offsets) -> {
          TreeMap<Integer, Long> partitions = new TreeMap<>();
          offsets.forEach((p, offset) -> partitions.put(Integer.valueOf(p), Long.valueOf(offset)));
          topics.put(topic, partitions);
        });
    return new KafkaOffset(topics, ids == null ? new TreeMap<>() : ids, time);
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

  Time time() {
    return time;
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
