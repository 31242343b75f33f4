package io.tidemill.kafka;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.TopicPartition;

/**
 * Which partitions wait for others, so that all are read at about the same event time: those that are too far ahead of
 * the slowest one that has something to read. Windows that a fast partition opens stay open until the slow one has come
 * as far.
 *
 * <p>Tables of one group wait for each other, with the drift that they say. A table alone lets no partition be ahead by
 * more than some batches of the slowest one.
 */
final class Alignment {
  private static final long LEAST_LEAD_MS = 60_000;
  private static final int BATCHES = 4;
  private static final Map<String, Map<Alignment, Long>> GROUPS = new ConcurrentHashMap<>();

  private final String group;
  private final long driftMs;
  private long slowest = Long.MIN_VALUE;
  private long stride;

  /** {@code group}: null for a table alone. */
  Alignment(String group, long driftMs) {
    this.group = group;
    this.driftMs = driftMs;
  }

  /** Whether the user has said how far partitions may be ahead. */
  boolean isAsked() {
    return driftMs > 0;
  }

  /**
   * @param backlog rows that wait, by partition
   * @param watermarks how far partitions have come; one that has not begun is not here
   * @return partitions of which nothing is read now
   */
  Set<TopicPartition> waiting(Map<TopicPartition, Long> backlog, Map<TopicPartition, Long> watermarks) {
    long least = Long.MAX_VALUE;
    for (Map.Entry<TopicPartition, Long> each : backlog.entrySet()) {
      if (each.getValue() > 0) {
        least = Math.min(least, watermarks.getOrDefault(each.getKey(), Long.MIN_VALUE));
      }
    }
    least = leastOfAll(least);
    if (least == Long.MAX_VALUE || least == Long.MIN_VALUE) {
      return Set.of();
    }
    if (least > slowest && slowest != Long.MIN_VALUE) {
      stride = least - slowest;
    }
    slowest = Math.max(slowest, least);
    long lead = driftMs > 0 ? driftMs : Math.max(LEAST_LEAD_MS, BATCHES * stride);
    Set<TopicPartition> ahead = new HashSet<>();
    for (TopicPartition tp : backlog.keySet()) {
      if (watermarks.getOrDefault(tp, Long.MIN_VALUE) - lead > least) {
        ahead.add(tp);
      }
    }
    return ahead;
  }

  private long leastOfAll(long own) {
    if (group == null) {
      return own;
    }
    Map<Alignment, Long> all = GROUPS.computeIfAbsent(group, g -> new ConcurrentHashMap<>());
    all.put(this, own);
    return new HashMap<>(all).values().stream().mapToLong(Long::longValue).min().orElse(own);
  }

  void end() {
    if (group != null) {
      GROUPS.computeIfPresent(
          group,
          (g, all) -> {
            all.remove(this);
            return all.isEmpty() ? null : all;
          });
    }
  }
}
