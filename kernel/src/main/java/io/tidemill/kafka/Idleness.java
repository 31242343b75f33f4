package io.tidemill.kafka;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.function.LongSupplier;
import org.apache.kafka.common.TopicPartition;

/**
 * Which partitions nobody waits for: those to which no record has come for a time, and of which all are read. A batch
 * may take as long as it likes: what counts is when the broker's end was last seen to move.
 */
final class Idleness {
  private record Head(long offset, long since) {}

  private final long timeoutNanos;
  private final LongSupplier nanos;
  private final Map<TopicPartition, Head> heads = new HashMap<>();

  /** {@code timeoutMs}: 0 for never. */
  Idleness(long timeoutMs, LongSupplier nanos) {
    this.timeoutNanos = timeoutMs * 1_000_000;
    this.nanos = nanos;
  }

  /** Where the partitions end now. One that was idle when the job was stopped is so until a record comes. */
  void look(Map<TopicPartition, Long> ends, KafkaOffset read) {
    if (timeoutNanos == 0) {
      return;
    }
    long now = nanos.getAsLong();
    ends.forEach(
        (tp, end) -> {
          Head known = heads.get(tp);
          if (known == null) {
            boolean wasIdle = read.time().idle().contains(tp) && read.get(tp) >= end;
            heads.put(tp, new Head(end, wasIdle ? now - timeoutNanos : now));
          } else if (known.offset() != end) {
            heads.put(tp, new Head(end, now));
          }
        });
  }

  Set<TopicPartition> idle(KafkaOffset read) {
    Set<TopicPartition> idle = new HashSet<>();
    long now = nanos.getAsLong();
    heads.forEach(
        (tp, head) -> {
          Long at = read.get(tp);
          if (at != null && at >= head.offset() && now - head.since() >= timeoutNanos) {
            idle.add(tp);
          }
        });
    return idle;
  }
}
