package io.tidemill.state;

import io.tidemill.time.Mark;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.function.Function;
import scala.Tuple2;

/** What leaves when the timers of a timeline go off: key by key, in the order of time. */
final class Waking implements Iterator<Tuple2<byte[], byte[]>> {
  private final Timeline timeline;
  private final Timeline.Entries due;
  private final Function<byte[], List<Tuple2<byte[], byte[]>>> wake;
  private final Runnable done;
  private boolean isDone;
  private Iterator<Tuple2<byte[], byte[]>> given = Collections.emptyIterator();

  /** {@code until} is due itself. {@code wake} does what is to be done for a key, {@code done} what is after all. */
  Waking(
      Timeline timeline,
      long from,
      long until,
      Function<byte[], List<Tuple2<byte[], byte[]>>> wake,
      Runnable done) {
    this.timeline = timeline;
    this.done = done;
    this.due = timeline.entries(from, until == Mark.END ? until : until + 1);
    this.wake = wake;
  }

  @Override
  public boolean hasNext() {
    while (!given.hasNext() && due.hasNext()) {
      Timeline.Entry entry = due.next();
      // One that is forgotten leaves its timer behind.
      timeline.remove(entry.time(), entry.key());
      given = wake.apply(entry.key()).iterator();
    }
    if (!given.hasNext() && !isDone) {
      isDone = true;
      done.run();
    }
    return given.hasNext();
  }

  @Override
  public Tuple2<byte[], byte[]> next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    return given.next();
  }
}
