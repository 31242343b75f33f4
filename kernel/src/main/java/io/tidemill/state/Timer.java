package io.tidemill.state;

import io.tidemill.time.Mark;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.function.Function;
import scala.Tuple2;

/**
 * When a key is woken though no rows have come for it: one entry of the timeline, whose time the key's state knows. What
 * is due is found without looking at any other key.
 *
 * <p>Law: a timer lies behind the watermark of the batch that has set it. So what is set for a time that the watermark
 * has passed already is due when it moves again, as timers of Flink's are.
 */
final class Timer {
  private static final byte[] VALUE = {1};
  private static final long NEVER = Mark.END;

  /** Null where state is only looked at. */
  private final Timeline timeline;
  private long at = NEVER;

  Timer(Timeline timeline) {
    this.timeline = timeline;
  }

  /** Whether the watermark has moved in a batch: only then is anything due. */
  static boolean isDue(KeyedProcessor.Moment moment) {
    return moment.now() > moment.before() || moment.now() == Mark.END;
  }

  void clear() {
    at = NEVER;
  }

  void read(ByteReader in) {
    at = in.readFixed64();
  }

  void write(ByteWriter out) {
    out.writeFixed64(at);
  }

  /** Sets it anew, for the key at hand. */
  void set(byte[] key, long time, KeyedProcessor.Moment moment) {
    long next = time == NEVER || moment.now() == Mark.END ? NEVER : Math.max(time, moment.now() + 1);
    if (next == at) {
      return;
    }
    if (at != NEVER) {
      timeline.remove(at, key);
    }
    if (next != NEVER) {
      timeline.put(next, key, VALUE);
    }
    at = next;
  }

  /** What leaves the keys that are due; those that had rows in this batch have set their timers anew. */
  static Iterator<Tuple2<byte[], byte[]>> due(
      Timeline timeline, KeyedProcessor.Moment moment, Function<byte[], List<Tuple2<byte[], byte[]>>> wake) {
    if (!isDue(moment)) {
      return Collections.emptyIterator();
    }
    long from = moment.before() == Mark.END ? Mark.END : moment.before() + 1;
    long until = moment.now() == Mark.END ? Mark.END : moment.now() + 1;
    return new Due(
        timeline.entries(from, until), time -> true, entry -> wake.apply(entry.key()).iterator(), none -> {});
  }

  /** The same where a timer is not known to the key's state: it is removed when it goes off, and {@code end} is done last. */
  static Iterator<Tuple2<byte[], byte[]>> due(
      Timeline timeline, long from, long until, Function<byte[], List<Tuple2<byte[], byte[]>>> wake, Runnable end) {
    return new Due(
        timeline.entries(from, until == Mark.END ? until : until + 1),
        time -> true,
        entry -> {
          // One that is forgotten leaves its timer behind.
          timeline.remove(entry.time(), entry.key());
          return wake.apply(entry.key()).iterator();
        },
        none -> end.run());
  }
}
