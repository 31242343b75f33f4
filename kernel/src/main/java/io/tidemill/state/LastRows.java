package io.tidemill.state;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import scala.Tuple2;

/** The last row of each key, by their numbers or in another order. */
final class LastRows extends ChosenRows {
  /** Heap that an entry takes beyond its bytes. */
  private static final int ENTRY = 120;

  private final Comparator<byte[]> order;
  private Map<Key, Tuple2<byte[], byte[]>> last;

  LastRows(Iterator<Tuple2<byte[], byte[]>> rows) {
    this(rows, Header.BY_NUMBER);
  }

  /** {@code order}: of packed rows of one key; of equal ones the one that comes later is the last. */
  LastRows(Iterator<Tuple2<byte[], byte[]>> rows, Comparator<byte[]> order) {
    super(rows);
    this.order = order;
  }

  @Override
  void clear() {
    last = new HashMap<>();
  }

  @Override
  long offer(Tuple2<byte[], byte[]> row) {
    Key key = new Key(row._1());
    Tuple2<byte[], byte[]> before = last.get(key);
    if (before != null && order.compare(before._2(), row._2()) > 0) {
      return 0;
    }
    last.put(key, row);
    if (before == null) {
      return ENTRY + row._1().length + row._2().length;
    }
    follow(row._2(), before._2());
    return row._2().length - before._2().length;
  }

  @Override
  List<Tuple2<byte[], byte[]>> chosen() {
    return new ArrayList<>(last.values());
  }

  private static void follow(byte[] row, byte[] before) {
    long header = PackedRow.header(before);
    if (Header.adds(header) || Header.isAfterAdded(header)) {
      PackedRow.setHeader(row, PackedRow.header(row) | Header.AFTER_ADDED);
    }
  }
}
