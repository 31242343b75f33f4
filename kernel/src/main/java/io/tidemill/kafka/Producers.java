package io.tidemill.kafka;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import org.apache.kafka.clients.producer.KafkaProducer;

/** The producers of this executor: one for each table of a job, shared by its tasks and kept over epochs. */
public final class Producers {
  private static final long IDLE_NANOS = Duration.ofMinutes(5).toNanos();
  private static final Map<Key, Shared> OPEN = new HashMap<>();

  static {
    Housekeeping.everyMinute("producers", Producers::closeIdle);
  }

  /** {@code job}: null for letters of a job that is not exact; they are kept until nobody has used them for a while. */
  private record Key(String job, SinkSpec.Target target) {}

  /** A producer, how many lanes use it, and what became of records nobody waits for. */
  static final class Shared {
    private final Key key;
    private final KafkaProducer<byte[], byte[]> producer;
    private final Delivery delivery;
    private int users;
    private long since;

    private Shared(Key key) {
      this.key = key;
      this.producer = Clients.producer(key.target().properties(), key.target().table());
      this.delivery = new Delivery(key.target());
    }

    KafkaProducer<byte[], byte[]> producer() {
      return producer;
    }

    Delivery delivery() {
      return delivery;
    }
  }

  private Producers() {}

  static synchronized Shared take(String job, SinkSpec.Target target) {
    Shared shared = OPEN.computeIfAbsent(new Key(job, target), Shared::new);
    shared.users++;
    return shared;
  }

  static void give(Shared shared) {
    boolean unwanted;
    synchronized (Producers.class) {
      shared.users--;
      shared.since = System.nanoTime();
      unwanted = shared.users == 0 && OPEN.get(shared.key) != shared;
    }
    if (unwanted) {
      shared.producer.close(Duration.ZERO);
    }
  }

  /** An idempotent producer that has lost a record is of no more use. */
  static synchronized void discard(Shared shared) {
    OPEN.remove(shared.key, shared);
  }

  /**
   * Closes the producers of a job that has ended, as far as they are in this JVM, soon: each may hold as much memory as
   * {@code buffer.memory} allows, and a broker that is gone must keep nobody waiting.
   */
  public static void release(String job) {
    Housekeeping.soon(
        "producers",
        () -> {
          Transactions.release(job);
          close(shared -> job.equals(shared.key.job()));
        });
  }

  private static void closeIdle() {
    long now = System.nanoTime();
    close(shared -> now - shared.since > IDLE_NANOS);
  }

  private static void close(Predicate<Shared> unwanted) {
    List<Shared> closing = new ArrayList<>();
    synchronized (Producers.class) {
      OPEN.values().removeIf(shared -> shared.users == 0 && unwanted.test(shared) && closing.add(shared));
    }
    // Not ZERO: rows of a table with guarantee 'none' may still be on their way.
    closing.forEach(shared -> shared.producer.close(Duration.ofSeconds(30)));
  }
}
