package io.tidemill.state;

import io.tidemill.time.Mark;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.function.Function;
import scala.Tuple2;

/**
 * When a key is woken though no rows have come for it: one entry of the timeline, whose time the key's state knows. What
 * is due is found without looking at any other key.
 *
 * <p>Law: an alarm lies behind the watermark of the batch that has set it. So what is set for a time that the watermark
 * has passed already is due when it moves again, as timers of Flink's are.
 */
final class Alarm {
  private static final byte[] VALUE = {1};
  private static final long NEVER = Mark.END;

  /** Null where state is only looked at. */
  private final Timeline timeline;
  private long at = NEVER;

  Alarm(Timeline timeline) {
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

  /** What leaves the keys that are due; those that had rows in this batch have set their alarms anew. */
  static Iterator<Tuple2<byte[], byte[]>> due(
      Timeline timeline, KeyedProcessor.Moment moment, Function<byte[], List<Tuple2<byte[], byte[]>>> wake) {
    if (!isDue(moment)) {
      return Collections.emptyIterator();
    }
    long from = moment.before() == Mark.END ? Mark.END : moment.before() + 1;
    long until = moment.now() == Mark.END ? Mark.END : moment.now() + 1;
    Timeline.Entries entries = timeline.entries(from, until);
    return new Iterator<>() {
      private Iterator<Tuple2<byte[], byte[]>> changes = Collections.emptyIterator();

      @Override
      public boolean hasNext() {
        while (!changes.hasNext() && entries.hasNext()) {
          changes = wake.apply(entries.next().key()).iterator();
        }
        return changes.hasNext();
      }

      @Override
      public Tuple2<byte[], byte[]> next() {
        if (!hasNext()) {
          throw new NoSuchElementException();
        }
        return changes.next();
      }
    };
  }
}
