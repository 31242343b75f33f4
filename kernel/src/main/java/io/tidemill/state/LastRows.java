package io.tidemill.state;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import scala.Tuple2;

/** The last row of each key, by their numbers or in another order; it stands for those before it. */
final class LastRows extends ChosenRows {
  /** Heap that an entry takes beyond its bytes. */
  private static final int ENTRY = 120;

  private final Comparator<byte[]> order;
  private final Oddities oddities;
  private Map<Key, Tuple2<byte[], byte[]>> last;

  /** Told of a row that replaces another one of its key. */
  interface Oddities {
    void look(boolean isThere, int kind);
  }

  /** {@code order}: of packed rows of one key; of equal ones the one that comes later is the last. */
  LastRows(Iterator<Tuple2<byte[], byte[]>> rows, Comparator<byte[]> order, Oddities oddities) {
    super(rows);
    this.order = order;
    this.oddities = oddities;
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
    long first = PackedRow.header(before._2());
    long header = PackedRow.header(row._2());
    oddities.look(Header.endsAdded(first), Header.kind(header));
    PackedRow.setHeader(row._2(), Header.after(first, header));
    return row._2().length - before._2().length;
  }

  @Override
  List<Tuple2<byte[], byte[]>> chosen() {
    return new ArrayList<>(last.values());
  }
}
