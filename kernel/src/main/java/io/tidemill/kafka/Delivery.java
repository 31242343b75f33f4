package io.tidemill.kafka;

import io.tidemill.Fault;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** Remembers the first record that the broker did not take. */
final class Delivery implements Callback {
  /** What the client has more, so that it can say itself what is wrong. */
  private static final long MARGIN_MS = 1000;

  private final SinkSpec.Target target;
  private final AtomicReference<Fault> failure = new AtomicReference<>();
  private final AtomicLong answered = new AtomicLong();

  Delivery(SinkSpec.Target target) {
    this.target = target;
  }

  @Override
  public void onCompletion(RecordMetadata metadata, Exception e) {
    // Of a batch that is refused the records beside the one that is wrong are answered for, too, and perhaps first.
    boolean isCause = e instanceof InvalidRecordException;
    if (e != null && (isCause || failure.get() == null)) {
      String topic = metadata == null ? target.topic() : metadata.topic();
      if (fault(target, topic, e) instanceof Fault fault) {
        failure.accumulateAndGet(fault, (first, next) -> first == null || isCause ? next : first);
      }
    }
    answered.incrementAndGet();
  }

  Fault takeFailure() {
    return failure.get() == null ? null : failure.getAndSet(null);
  }

  /**
   * Waits until so many records are answered for, or one has failed. A flush would wait for the
   * others even then, and in a transaction that one record has broken they have no answer for long.
   * Without a broker the client asks for its transaction for ever and lets no record expire; so
   * the time that the user gives a record is measured here.
   */
  void await(long sent) {
    long patience = Clients.deliveryTimeoutMs(target.properties());
    long seen = -1;
    long since = 0;
    while (answered.get() < sent && failure.get() == null) {
      if (Thread.currentThread().isInterrupted()) {
        throw new InterruptException("waiting for the broker");
      }
      long now = System.nanoTime();
      if (answered.get() != seen) {
        seen = answered.get();
        since = now;
      } else if (now - since > (patience + MARGIN_MS) * 1_000_000) {
        throw new TimeoutException("no answer from the broker in " + patience + " ms");
      }
      LockSupport.parkNanos(500_000);
    }
    check();
  }

  void check() {
    Fault failed = takeFailure();
    if (failed != null) {
      throw Clients.once(failed);
    }
  }

  static Throwable fault(SinkSpec.Target target, String topic, Exception e) {
    if (e instanceof Fault || e instanceof InterruptException) {
      return e;
    }
    if (OldBroker.lacks(e)) {
      return OldBroker.fault(target.properties(), "table '" + target.table() + "'");
    }
    String writing = "table '" + target.table() + "': writing to topic '" + topic + "'";
    Fault refused = Refusals.of(target.properties(), writing, e);
    if (refused != null) {
      return refused;
    }
    String servers = target.properties().get("bootstrap.servers");
    String hint = null;
    if (e instanceof TimeoutException) {
      hint = "check that the broker at " + servers + " can be reached and that the topic exists";
    } else if (e instanceof UnknownTopicOrPartitionException || e instanceof InvalidTopicException) {
      hint = "create the topic, or correct the option 'topic'";
    } else if (e instanceof InvalidRecordException) {
      hint = "a compacted topic takes no record without a key";
    }
    return new Fault(
        Fault.SEND_FAILED,
        "table '%s': a record for topic '%s' was not written: %s"
            .formatted(target.table(), topic, Clients.scrub(target.properties(), e.getMessage())),
        hint,
        e);
  }
}
