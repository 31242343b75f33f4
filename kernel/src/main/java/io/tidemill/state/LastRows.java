package io.tidemill.state;

import java.util.Arrays;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import scala.Tuple2;

/** The last row of each key, by their numbers or in another order; it stands for those before it. */
final class LastRows extends ChosenRows {
  /** Heap that an entry takes beyond its bytes. */
  private static final int ENTRY = 96;

  private final Comparator<byte[]> order;
  private final Oddities oddities;

  // An open table, which makes no objects: entry i is pairs[i], its key's hash hashes[i]; a slot has i + 1, or 0.
  @SuppressWarnings("unchecked")
  private Tuple2<byte[], byte[]>[] pairs = new Tuple2[1 << 10];

  private long[] hashes = new long[pairs.length];
  private int[] slots = new int[2 * pairs.length];
  private int size;

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
    Arrays.fill(slots, 0);
    Arrays.fill(pairs, 0, size, null);
    size = 0;
  }

  @Override
  long offer(Tuple2<byte[], byte[]> row) {
    long hash = PackedRow.header(row._1());
    int slot = slot(hash, row._1());
    if (slots[slot] == 0) {
      if (size == pairs.length) {
        grow();
        slot = slot(hash, row._1());
      }
      pairs[size] = row;
      hashes[size] = hash;
      slots[slot] = ++size;
      return ENTRY + row._1().length + row._2().length;
    }
    int entry = slots[slot] - 1;
    byte[] before = pairs[entry]._2();
    if (order.compare(before, row._2()) > 0) {
      return 0;
    }
    pairs[entry] = row;
    long first = PackedRow.header(before);
    long header = PackedRow.header(row._2());
    oddities.look(Header.endsAdded(first), Header.kind(header));
    PackedRow.setHeader(row._2(), Header.after(first, header));
    return row._2().length - before.length;
  }

  /** Where a key is, or would be. */
  private int slot(long hash, byte[] key) {
    int mask = slots.length - 1;
    int slot = (int) hash & mask;
    while (slots[slot] != 0) {
      int entry = slots[slot] - 1;
      if (hashes[entry] == hash && Arrays.equals(pairs[entry]._1(), key)) {
        break;
      }
      slot = (slot + 1) & mask;
    }
    return slot;
  }

  private void grow() {
    pairs = Arrays.copyOf(pairs, 2 * size);
    hashes = Arrays.copyOf(hashes, 2 * size);
    slots = new int[4 * size];
    int mask = slots.length - 1;
    for (int i = 0; i < size; i++) {
      int slot = (int) hashes[i] & mask;
      while (slots[slot] != 0) {
        slot = (slot + 1) & mask;
      }
      slots[slot] = i + 1;
    }
  }

  @Override
  List<Tuple2<byte[], byte[]>> chosen() {
    return Arrays.asList(pairs).subList(0, size);
  }
}
