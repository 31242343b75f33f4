package io.tidemill.state;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import scala.Tuple2;

/**
 * Of the rows of a map task, those that an operator after the shuffle may want: the others need not cross it. Memory is
 * bounded: at {@link #MAX_BYTES} the rows leave and the choice begins anew; a task of whose rows nearly all are chosen
 * stops choosing.
 */
abstract class ChosenRows implements Iterator<Tuple2<byte[], byte[]>> {
  static final long MAX_BYTES = 32L << 20;
  private static final double WORTHWHILE = 1.1;
  /** Enough for all rows of {@link #MAX_BYTES}, of which each takes far more than two bytes. */
  private static final long PLACE = (1L << 24) - 1;

  private final Iterator<Tuple2<byte[], byte[]>> rows;
  private Iterator<Tuple2<byte[], byte[]>> chosen = List.<Tuple2<byte[], byte[]>>of().iterator();
  private boolean choosing = true;

  ChosenRows(Iterator<Tuple2<byte[], byte[]>> rows) {
    this.rows = rows;
  }

  /** Begins anew. */
  abstract void clear();

  /** Looks at a row; returns by how many bytes of heap what is kept has grown. */
  abstract long offer(Tuple2<byte[], byte[]> row);

  abstract List<Tuple2<byte[], byte[]>> chosen();

  @Override
  public final boolean hasNext() {
    return chosen.hasNext() || rows.hasNext();
  }

  @Override
  public final Tuple2<byte[], byte[]> next() {
    if (!chosen.hasNext()) {
      if (!choosing) {
        return rows.next();
      }
      choose();
    }
    return chosen.next();
  }

  private void choose() {
    clear();
    long taken = 0;
    long bytes = 0;
    do {
      bytes += offer(rows.next());
      taken++;
    } while (bytes < MAX_BYTES && rows.hasNext());
    List<Tuple2<byte[], byte[]>> kept = chosen();
    choosing = taken >= kept.size() * WORTHWHILE;
    chosen = byHash(kept);
  }

  /**
   * Nearly the order into which Spark will sort them: it then finds long runs and only merges. What is sorted are
   * longs, the upper bits of a key's hash and the place of its row, which takes a fraction of sorting the rows.
   */
  private static Iterator<Tuple2<byte[], byte[]>> byHash(List<Tuple2<byte[], byte[]>> rows) {
    long[] places = new long[rows.size()];
    for (int i = 0; i < places.length; i++) {
      // Spark compares bytes without a sign, Arrays.sort longs with one.
      places[i] = (PackedRow.header(rows.get(i)._1()) ^ Long.MIN_VALUE) & ~PLACE | i;
    }
    Arrays.sort(places);
    List<Tuple2<byte[], byte[]>> sorted = new ArrayList<>(places.length);
    for (long place : places) {
      sorted.add(rows.get((int) (place & PLACE)));
    }
    return sorted.iterator();
  }

  /** A packed key as the key of a map. */
  record Key(byte[] bytes) {
    @Override
    public int hashCode() {
      return Long.hashCode(PackedRow.header(bytes));
    }

    @Override
    public boolean equals(Object other) {
      return other instanceof Key that && Arrays.equals(bytes, that.bytes);
    }
  }
}
