package io.tidemill.kafka;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;

/** The producers of this executor: one for each table, shared by its tasks and kept over epochs. */
final class Producers {
  private static final long IDLE_NANOS = Duration.ofMinutes(5).toNanos();
  private static final Map<SinkSpec.Target, Shared> OPEN = new HashMap<>();

  static {
    Housekeeping.everyMinute("producers", Producers::closeIdle);
  }

  /** A producer, how many lanes use it, and what became of records nobody waits for. */
  static final class Shared {
    private final SinkSpec.Target target;
    private final KafkaProducer<byte[], byte[]> producer;
    private final Delivery delivery;
    private int users;
    private long since;

    private Shared(SinkSpec.Target target) {
      this.target = target;
      this.producer = Clients.producer(target.properties(), target.table());
      this.delivery = new Delivery(target);
    }

    KafkaProducer<byte[], byte[]> producer() {
      return producer;
    }

    Delivery delivery() {
      return delivery;
    }
  }

  private Producers() {}

  static synchronized Shared take(SinkSpec.Target target) {
    Shared shared = OPEN.computeIfAbsent(target, Shared::new);
    shared.users++;
    return shared;
  }

  static void give(Shared shared) {
    boolean unwanted;
    synchronized (Producers.class) {
      shared.users--;
      shared.since = System.nanoTime();
      unwanted = shared.users == 0 && OPEN.get(shared.target) != shared;
    }
    if (unwanted) {
      shared.producer.close(Duration.ZERO);
    }
  }

  /** An idempotent producer that has lost a record is of no more use. */
  static synchronized void discard(Shared shared) {
    OPEN.remove(shared.target, shared);
  }

  private static void closeIdle() {
    List<Shared> idle = new ArrayList<>();
    synchronized (Producers.class) {
      long now = System.nanoTime();
      OPEN.values()
          .removeIf(
              shared -> {
                boolean unused = shared.users == 0 && now - shared.since > IDLE_NANOS;
                return unused && idle.add(shared);
              });
    }
    // Not ZERO: rows of a table with guarantee 'none' may still be on their way.
    idle.forEach(shared -> shared.producer.close(Duration.ofSeconds(30)));
  }
}
