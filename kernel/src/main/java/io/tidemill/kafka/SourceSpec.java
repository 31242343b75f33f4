package io.tidemill.kafka;

import java.io.Serializable;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * What a scan of a Kafka table is told, all in the one option {@code spec}.
 *
 * @param topics the topics by name, or null if {@code topicPattern} names them
 * @param topicPattern a Java regular expression that a whole topic name must match
 * @param columns the columns to read, in this order; null reads all. Spark does not push column
 *     pruning into streaming scans, so the planner, which knows what it needs, says it here
 * @param blocks whether a scan gives the records packed into {@link Block}s instead of row by row
 * @param decoding how a scan makes the table's rows instead; null if it gives records
 * @param everyPartition whether a partition without new records has a task too: then the number of
 *     a task is the place of its partition among all of the table's, in every batch
 * @param discoveryIntervalMs how often to look for new partitions; none after the start if ≤ 0
 * @param rowsPerSecond most rows that are read in a second, on average; null for no limit
 * @param onDataLoss {@code fail} or {@code warn}
 * @param defaultGroup the group of the clients if the properties name none; nothing is committed
 *     to it, and nothing read from it
 * @param endsWithRun whether the table ends where a run that reads what is there ends: nobody will go on
 *     from its checkpoint
 * @param clock what an operator that looks at time wants to know; null if there is none
 */
record SourceSpec(
    String table,
    Map<String, String> properties,
    List<String> topics,
    String topicPattern,
    Edge startup,
    Edge bounded,
    List<String> columns,
    boolean blocks,
    Decoding decoding,
    boolean everyPartition,
    long discoveryIntervalMs,
    Long maxRowsPerBatch,
    Long rowsPerSecond,
    String onDataLoss,
    String defaultGroup,
    boolean endsWithRun,
    Clock clock)
    implements Serializable {

  /**
   * Where reading starts or stops.
   *
   * @param mode earliest-offset, latest-offset, group-offsets, timestamp, specific-offsets, or
   *     unbounded for a stop
   * @param offsets offset by partition, for specific-offsets; the same for every topic
   */
  record Edge(String mode, Long timestampMillis, Map<Integer, Long> offsets)
      implements Serializable {
    Edge {
      offsets = offsets == null ? Map.of() : offsets;
      if ("timestamp".equals(mode) && timestampMillis == null) {
        throw new IllegalArgumentException("mode timestamp needs timestampMillis");
      }
    }
  }

  /**
   * @param channel the name under which a scan's partitions tell their event time, one of its own for each scan
   * @param idleTimeoutMs after how long without a record nobody waits for a partition; 0 for never
   * @param job the name of the job's alarm; null if nothing in it waits for the clock of the machine
   * @param group tables of one group are read at about the same event time; null for a table alone
   * @param driftMs how far a partition may be ahead of the slowest of its group; 0 where nobody says
   */
  record Clock(String channel, long idleTimeoutMs, String job, String group, long driftMs)
      implements Serializable {
    String of(String topic, int partition) {
      return channel + "/" + topic + "/" + partition;
    }
  }

  SourceSpec {
    if (properties == null || (topics == null) == (topicPattern == null)) {
      throw new IllegalArgumentException(
          "a source spec needs properties and either topics or topicPattern");
    }
    if (topicPattern != null) {
      Pattern.compile(topicPattern);
    }
    if (maxRowsPerBatch != null && maxRowsPerBatch <= 0) {
      throw new IllegalArgumentException("maxRowsPerBatch must be positive");
    }
    if (rowsPerSecond != null && rowsPerSecond <= 0) {
      throw new IllegalArgumentException("rowsPerSecond must be positive");
    }
    startup = startup == null ? new Edge("earliest-offset", null, null) : startup;
    bounded = bounded == null ? new Edge("unbounded", null, null) : bounded;
    onDataLoss = onDataLoss == null ? "fail" : onDataLoss;
  }

  boolean isBounded() {
    return !"unbounded".equals(bounded.mode());
  }

  boolean failsOnDataLoss() {
    return !"warn".equals(onDataLoss);
  }

  boolean readsCommitted() {
    return "read_committed".equalsIgnoreCase(properties.get("isolation.level"));
  }

  /** The group that the user names; null if there is none. */
  String group() {
    return properties.get("group.id");
  }

  /** Flink's own property, which its users set among the client's. */
  boolean commits() {
    return !"false".equalsIgnoreCase(properties.get("commit.offsets.on.checkpoint"));
  }

  String described() {
    return topics != null ? String.join(", ", topics) : topicPattern;
  }

  /** Shown in plans and logs, so without the properties. */
  @Override
  public String toString() {
    return "SourceSpec[" + table + ": " + described() + "]";
  }
}
