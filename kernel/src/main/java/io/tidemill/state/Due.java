package io.tidemill.state;

import java.util.Collections;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.LongPredicate;
import scala.Tuple2;

/** What leaves an operator for the entries at the front of a timeline that are due: one after the other, as it is read. */
final class Due implements Iterator<Tuple2<byte[], byte[]>> {
  private final Timeline.Entries entries;
  private final LongPredicate isDue;
  private final Function<Timeline.Entry, Iterator<Tuple2<byte[], byte[]>>> each;
  private final Consumer<Timeline.Entry> end;
  private Iterator<Tuple2<byte[], byte[]>> given = Collections.emptyIterator();
  private boolean isOver;

  /**
   * @param isDue told the time of an entry; the first that is not due is the end
   * @param each does what is to be done for an entry, and gives what leaves
   * @param end done once, after all: told the first entry that is not due, or null
   */
  Due(
      Timeline.Entries entries,
      LongPredicate isDue,
      Function<Timeline.Entry, Iterator<Tuple2<byte[], byte[]>>> each,
      Consumer<Timeline.Entry> end) {
    this.entries = entries;
    this.isDue = isDue;
    this.each = each;
    this.end = end;
  }

  @Override
  public boolean hasNext() {
    while (!given.hasNext() && !isOver) {
      Timeline.Entry next = entries.hasNext() ? entries.next() : null;
      if (next != null && isDue.test(next.time())) {
        given = each.apply(next);
      } else {
        isOver = true;
        entries.close();
        end.accept(next);
      }
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
