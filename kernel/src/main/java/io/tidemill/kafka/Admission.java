package io.tidemill.kafka;

import java.util.Comparator;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;

/** How many rows of each partition a batch takes, when it may not take all. */
final class Admission {
  private static final Comparator<TopicPartition> ORDER =
      Comparator.comparing(TopicPartition::topic).thenComparingInt(TopicPartition::partition);

  private TopicPartition last;

  /**
   * Half of the batch is shared evenly, so that a short partition is never starved by a long one;
   * the other half goes by what is left, so that all reach their end at about the same time.
   *
   * @param backlog rows that wait, by partition; none is negative
   * @param evenly all goes by what is left: as far as rows reach to the same time, partitions then keep step in it
   * @return {@code limit} rows in total if there are as many, and at least one of every partition that
   *     waits; where there are more of these than rows, they take turns
   */
  Map<TopicPartition, Long> share(Map<TopicPartition, Long> backlog, long limit, boolean evenly) {
    TreeMap<TopicPartition, Long> waiting = new TreeMap<>(ORDER);
    backlog.forEach(
        (tp, rows) -> {
          if (rows > 0) {
            waiting.put(tp, rows);
          }
        });
    long total = waiting.values().stream().mapToLong(Long::longValue).sum();
    if (total <= limit) {
      return waiting;
    }
    Map<TopicPartition, Long> taken = new TreeMap<>(ORDER);
    if (waiting.size() > limit) {
      for (int i = 0; i < limit; i++) {
        TopicPartition next = last == null ? null : waiting.higherKey(last);
        last = next == null ? waiting.firstKey() : next;
        taken.put(last, 1L);
      }
      return taken;
    }
    long even = evenly ? 1 : Math.max(1, limit / 2 / waiting.size());
    waiting.forEach((tp, rows) -> taken.put(tp, Math.min(rows, even)));
    long given = taken.values().stream().mapToLong(Long::longValue).sum();
    double ratio = Math.max(0, (double) (limit - given) / (total - given));
    waiting.forEach(
        (tp, rows) -> taken.merge(tp, (long) ((rows - taken.get(tp)) * ratio), Long::sum));
    long rest = limit - taken.values().stream().mapToLong(Long::longValue).sum();
    for (Map.Entry<TopicPartition, Long> entry : taken.entrySet()) {
      if (rest > 0 && entry.getValue() < waiting.get(entry.getKey())) {
        entry.setValue(entry.getValue() + 1);
        rest--;
      }
    }
    return taken;
  }
}
