package io.tidemill.state;

import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.function.Predicate;
import scala.Tuple2;

/** Pairs without those that are not for who reads them, which go elsewhere as they come. */
final class Sifting implements Iterator<Tuple2<byte[], byte[]>> {
  private final Iterator<Tuple2<byte[], byte[]>> pairs;
  private final Predicate<Tuple2<byte[], byte[]>> stays;
  private Tuple2<byte[], byte[]> next;

  /** {@code stays}: asked of each pair once; it sees to what does not stay. */
  Sifting(Iterator<Tuple2<byte[], byte[]>> pairs, Predicate<Tuple2<byte[], byte[]>> stays) {
    this.pairs = pairs;
    this.stays = stays;
  }

  @Override
  public boolean hasNext() {
    while (next == null && pairs.hasNext()) {
      Tuple2<byte[], byte[]> pair = pairs.next();
      next = stays.test(pair) ? pair : null;
    }
    return next != null;
  }

  @Override
  public Tuple2<byte[], byte[]> next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    Tuple2<byte[], byte[]> given = next;
    next = null;
    return given;
  }
}
