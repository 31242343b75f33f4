package io.tidemill.kafka;

import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import java.util.stream.Collectors;
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
  private static final Map<String, Set<Alignment>> GROUPS = new ConcurrentHashMap<>();

  private final String group;
  private final long driftMs;
  private final Supplier<Map<TopicPartition, Long>> watermarks;
  /** Partitions of which something is left to read after what was planned last. */
  private volatile Set<TopicPartition> left = Set.of();
  private long slowest = Long.MIN_VALUE;
  private long stride;

  /**
   * @param group null for a table alone
   * @param watermarks how far partitions have come by now; one that has not begun is not among them
   */
  Alignment(String group, long driftMs, Supplier<Map<TopicPartition, Long>> watermarks) {
    this.group = group;
    this.driftMs = driftMs;
    this.watermarks = watermarks;
    if (group != null) {
      GROUPS.computeIfAbsent(group, g -> ConcurrentHashMap.newKeySet()).add(this);
    }
  }

  /** Whether the user has said how far partitions may be ahead. */
  boolean isAsked() {
    return driftMs > 0;
  }

  /**
   * @param backlog rows that wait, by partition
   * @return partitions of which nothing is read now; never one that others wait for
   */
  Set<TopicPartition> waiting(Map<TopicPartition, Long> backlog) {
    plan(backlog, Map.of());
    Map<TopicPartition, Long> reached = watermarks.get();
    // What others have come to, as of now: who goes by what they said before may wait for one that waits for it.
    long least = group == null ? least() : GROUPS.get(group).stream().mapToLong(Alignment::least).min().orElseThrow();
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
      if (reached.getOrDefault(tp, Long.MIN_VALUE) - lead > least) {
        ahead.add(tp);
      }
    }
    return ahead;
  }

  /** So much is read of what waits. */
  void plan(Map<TopicPartition, Long> backlog, Map<TopicPartition, Long> shares) {
    left =
        backlog.entrySet().stream()
            .filter(each -> each.getValue() > shares.getOrDefault(each.getKey(), 0L))
            .map(Map.Entry::getKey)
            .collect(Collectors.toUnmodifiableSet());
  }

  /** The least watermark of partitions that have something to read. */
  private long least() {
    Map<TopicPartition, Long> reached = watermarks.get();
    return left.stream().mapToLong(tp -> reached.getOrDefault(tp, Long.MIN_VALUE)).min().orElse(Long.MAX_VALUE);
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
