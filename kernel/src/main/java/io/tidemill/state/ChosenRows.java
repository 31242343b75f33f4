package io.tidemill.state;

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
    // The order into which Spark will sort them: it then finds long runs and only merges.
    kept.sort((a, b) -> Long.compareUnsigned(PackedRow.header(a._1()), PackedRow.header(b._1())));
    chosen = kept.iterator();
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
