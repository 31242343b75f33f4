package io.tidemill.kafka;

import io.tidemill.Fault;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Rows that go to the broker as they come.
 *
 * <p>At least once: all that was sent is flushed, and any failure reported, before the task
 * commits. None: nobody waits, and a failure ends whichever task of this executor meets it next.
 */
final class PlainLane implements Lane {
  private final SinkSpec.Target target;
  private final Producers.Shared shared;
  private final Delivery delivery;

  PlainLane(String job, SinkSpec.Target target) {
    this.target = target;
    this.shared = Producers.take(job, target);
    this.delivery = target.flushes() ? new Delivery(target) : shared.delivery();
  }

  @Override
  public void send(ProducerRecord<byte[], byte[]> record) {
    guarded(record.topic(), () -> shared.producer().send(record, delivery));
  }

  @Override
  public void commit() {
    guarded(
        target.topic(),
        () -> {
          if (target.flushes()) {
            shared.producer().flush();
          }
        });
  }

  @Override
  public int partitions(String topic) {
    int[] count = new int[1];
    guarded(topic, () -> count[0] = shared.producer().partitionsFor(topic).size());
    return count[0];
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
        Throwable fault = Delivery.fault(target, topic, e);
        if (fault instanceof Fault refused && refused.code().equals(Fault.ACCESS_DENIED)) {
          // A producer that nobody uses any more would go on knocking.
          Producers.discard(shared);
        }
        throw Clients.fault(target.properties(), "writing", fault);
      }
      failed = delivery.takeFailure();
    }
    if (failed != null) {
      Producers.discard(shared);
      throw Clients.once(failed);
    }
  }
}
