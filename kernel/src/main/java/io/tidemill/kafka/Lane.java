package io.tidemill.kafka;

import io.tidemill.Fault;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * The way of one task's rows to one table.
 *
 * <p>At least once: all that was sent is flushed, and any failure reported, before the task
 * commits. None: nobody waits, and a failure ends whichever task of this executor meets it next.
 */
final class Lane implements AutoCloseable {
  private final SinkSpec.Target target;
  private final Producers.Shared shared;
  private final Delivery delivery;
  private final Map<String, Integer> partitionCounts = new HashMap<>();

  Lane(SinkSpec.Target target) {
    this.target = target;
    this.shared = Producers.take(target);
    this.delivery = target.flushes() ? new Delivery(target) : shared.delivery();
  }

  void send(ProducerRecord<byte[], byte[]> record) {
    guarded(
        record.topic(),
        () -> {
          if (record.partition() != null) {
            checkPartition(record.topic(), record.partition());
          }
          shared.producer().send(record, delivery);
        });
  }

  void commit() {
    guarded(
        target.topic(),
        () -> {
          if (target.flushes()) {
            shared.producer().flush();
          }
        });
  }

  @Override
  public void close() {
    Producers.give(shared);
  }

  private void guarded(String topic, Runnable action) {
    Fault failed = delivery.takeFailure();
    if (failed == null) {
      try {
        action.run();
      } catch (RuntimeException e) {
        throw Clients.fault(target.properties(), "writing", Delivery.fault(target, topic, e));
      }
      failed = delivery.takeFailure();
    }
    if (failed != null) {
      Producers.discard(shared);
      throw failed;
    }
  }

  /** The client would wait a minute for a partition that will never be. */
  private void checkPartition(String topic, int partition) {
    int count = partitionCounts.getOrDefault(topic, 0);
    if (partition < 0 || partition >= count) {
      count = shared.producer().partitionsFor(topic).size();
      partitionCounts.put(topic, count);
    }
    if (partition < 0 || partition >= count) {
      throw new Fault(
          Fault.SEND_FAILED,
          "table '%s': topic '%s' has no partition %d: it has %d"
              .formatted(target.table(), topic, partition, count),
          null);
    }
  }
}
