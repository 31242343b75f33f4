package io.tidemill.state;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import scala.Tuple2;

/**
 * Of the rows of a map task, the last one of each key, by their numbers or in another order: what an operator needs that
 * only looks at a key's last row. Memory is bounded: at {@link #MAX_BYTES} the rows leave and the table starts anew; a
 * task whose keys turn out to be nearly all different stops looking for repeats.
 */
final class LastRows implements Iterator<Tuple2<byte[], byte[]>> {
  private static final long MAX_BYTES = 32L << 20;
  /** Heap that an entry takes beyond its bytes. */
  private static final int ENTRY = 120;
  private static final double WORTHWHILE = 1.1;

  private static final Comparator<byte[]> BY_NUMBER = Comparator.comparingLong(LastRows::number);

  private final Iterator<Tuple2<byte[], byte[]>> rows;
  private final Comparator<byte[]> order;
  private Iterator<Tuple2<byte[], byte[]>> kept = List.<Tuple2<byte[], byte[]>>of().iterator();
  private boolean combining = true;

  LastRows(Iterator<Tuple2<byte[], byte[]>> rows) {
    this(rows, BY_NUMBER);
  }

  /** {@code order}: of packed rows of one key, which are never equal. */
  LastRows(Iterator<Tuple2<byte[], byte[]>> rows, Comparator<byte[]> order) {
    this.rows = rows;
    this.order = order;
  }

  @Override
  public boolean hasNext() {
    return kept.hasNext() || rows.hasNext();
  }

  @Override
  public Tuple2<byte[], byte[]> next() {
    if (!kept.hasNext()) {
      if (!combining) {
        return rows.next();
      }
      fill();
    }
    return kept.next();
  }

  private void fill() {
    Map<Key, Tuple2<byte[], byte[]>> last = new HashMap<>();
    long taken = 0;
    long bytes = 0;
    do {
      Tuple2<byte[], byte[]> row = rows.next();
      taken++;
      Key key = new Key(row._1());
      Tuple2<byte[], byte[]> before = last.get(key);
      if (before == null) {
        bytes += ENTRY + row._1().length + row._2().length;
      } else if (order.compare(before._2(), row._2()) > 0) {
        continue;
      } else {
        follow(row._2(), before._2());
        bytes += row._2().length - before._2().length;
      }
      last.put(key, row);
    } while (bytes < MAX_BYTES && rows.hasNext());
    combining = taken >= last.size() * WORTHWHILE;
    List<Tuple2<byte[], byte[]>> sorted = new ArrayList<>(last.values());
    sorted.sort((a, b) -> Long.compareUnsigned(PackedRow.header(a._1()), PackedRow.header(b._1())));
    kept = sorted.iterator();
  }

  private static void follow(byte[] row, byte[] before) {
    long header = PackedRow.header(before);
    if (Header.adds(header) || Header.isAfterAdded(header)) {
      PackedRow.setHeader(row, PackedRow.header(row) | Header.AFTER_ADDED);
    }
  }

  private static long number(byte[] row) {
    return Header.number(PackedRow.header(row));
  }

  record Key(byte[] bytes) {
    @Override
    public int hashCode() {
      return Long.hashCode(PackedRow.header(bytes));
    }

    @Override
    public boolean equals(Object other) {
      return other instanceof Key that && java.util.Arrays.equals(bytes, that.bytes);
    }
  }
}
