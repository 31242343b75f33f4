package io.tidemill.kafka;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.apache.kafka.common.TopicPartition;

/**
 * The cursors of this executor between batches. One in use is not here, so that two attempts of a
 * task never share one.
 */
final class Cursors {
  private static final long IDLE_NANOS = Duration.ofMinutes(5).toNanos();
  private static final ConcurrentHashMap<Key, Parked> PARKED = new ConcurrentHashMap<>();

  static {
    Housekeeping.everyMinute(
        "consumers", () -> close(p -> System.nanoTime() - p.since() > IDLE_NANOS));
  }

  /** A run is one start of one source of a query. */
  private record Key(String run, TopicPartition partition) {}

  private record Parked(String run, Cursor cursor, long since) {}

  private Cursors() {}

  static Cursor take(String run, TopicPartition tp, Supplier<Cursor> maker) {
    Parked parked = PARKED.remove(new Key(run, tp));
    return parked != null ? parked.cursor() : maker.get();
  }

  static void park(String run, TopicPartition tp, Cursor cursor) {
    Parked displaced =
        PARKED.put(new Key(run, tp), new Parked(run, cursor, System.nanoTime()));
    if (displaced != null) {
      displaced.cursor().close();
    }
  }

  /** Ends the cursors of a run, as far as they are in this JVM. */
  static void end(String run) {
    close(parked -> parked.run().equals(run));
  }

  private static void close(Predicate<Parked> unwanted) {
    List<Cursor> ended = new ArrayList<>();
    for (Iterator<Key> keys = PARKED.keySet().iterator(); keys.hasNext(); ) {
      PARKED.computeIfPresent(
          keys.next(),
          (key, parked) -> {
            if (!unwanted.test(parked)) {
              return parked;
            }
            ended.add(parked.cursor());
            return null;
          });
    }
    ended.forEach(Cursor::close);
  }
}
