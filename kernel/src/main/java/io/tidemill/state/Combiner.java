package io.tidemill.state;

import java.util.Arrays;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/**
 * Turns the rows of a map task into one delta per key, so that a key crosses the shuffle once per task and not once per
 * row. In: packed (key, arguments). Out: packed (key, delta), in the order of the keys' hashes, which is the order that
 * Spark will sort them into: it then finds long runs and only merges.
 *
 * <p>Rows of a key that are taken out before any is put in may be unknown to the state, which is known only after the
 * shuffle: they are a delta of their own, before that of the others.
 *
 * <p>Memory is bounded by flushing: at {@link #MAX_GROUPS} keys or {@link #MAX_BYTES} of keys and values the deltas
 * leave and the table starts anew. A task whose keys turn out to be nearly all different stops looking for repeats.
 */
final class Combiner implements Iterator<Tuple2<byte[], byte[]>> {
  static final int MAX_GROUPS = 1 << 18;
  static final long MAX_BYTES = 32L << 20;
  /** Below this many rows a key, the table costs more than the rows it saves. */
  private static final double WORTHWHILE = 1.1;

  /** How many groups an operator's last table held, so that its next one need not grow step by step. */
  private static final Map<AggregateSpec, Integer> LAST_SIZES = new ConcurrentHashMap<>();

  private final AggregateSpec spec;
  private final Iterator<Tuple2<byte[], byte[]>> rows;
  private final Accumulators accumulators;
  private final Accumulator[] all;
  private final UnsafeRow arguments;
  private final int task;
  private final ByteWriter delta = new ByteWriter(256);
  private final ByteWriter removals = new ByteWriter(256);
  private long deltas;

  // Group i has hash hashes[i], its key ends at ends[i] in `keys`, and its accumulators are groups.at(i).
  private int capacity;
  private final ByteWriter keys;
  private int[] ends;
  private long[] hashes;
  private int[] slots;
  private final Group groups;
  /** What each group is, where rows are taken out: one of the four, or the number of the group that it goes on as. */
  private int[] parts;

  private static final int NEW = 0;
  /** Its first row is put in. */
  private static final int WHOLE = -1;
  /** Its rows are all taken out. */
  private static final int REMOVALS = -2;
  /** Goes on for one of removals; it has no key of its own. */
  private static final int REST = -3;

  private final boolean sliced;
  /** Whether deltas have numbers: where order matters, and where it is asked from which task they come. */
  private final boolean numbered;
  /** Whether the delta of a row has the row behind it. */
  private final boolean carrying;
  // Where rows are in slices: the end of each group's, and how many rows it has.
  private long[] slices;
  private long[] rowCounts;

  private int size;
  private int[] order = {};
  private int drained;
  private boolean combining = true;

  /** The deltas of single rows, as they come, each with its time in the place of a slice. */
  static Combiner oneByOne(
      AggregateSpec spec, StructType arguments, Iterator<Tuple2<byte[], byte[]>> rows, int task) {
    Combiner each = new Combiner(spec, arguments, rows, task, true);
    each.combining = false;
    return each;
  }

  /** {@code sliced}: the header of a row is a {@link Slice}'s, and a group is a key in a slice. */
  Combiner(
      AggregateSpec spec, StructType arguments, Iterator<Tuple2<byte[], byte[]>> rows, int task, boolean sliced) {
    this.spec = spec;
    this.rows = rows;
    this.accumulators = new Accumulators(spec, arguments, 0);
    this.all = accumulators.all.toArray(Accumulator[]::new);
    this.arguments = new UnsafeRow(arguments.size());
    this.task = task;
    this.sliced = sliced;
    this.carrying = sliced && TimeSpec.hasLetters(spec.clock());
    this.numbered = sliced || accumulators.isOrdered();
    this.capacity = 2 * Integer.highestOneBit(LAST_SIZES.getOrDefault(spec, 1) | 127);
    this.keys = new ByteWriter(40 * capacity);
    this.ends = new int[capacity];
    this.hashes = new long[capacity];
    this.slices = new long[sliced ? capacity : 0];
    this.rowCounts = new long[sliced ? capacity : 0];
    this.slots = new int[2 * capacity];
    this.parts = new int[capacity];
    this.groups = accumulators.newGroups(capacity);
  }

  @Override
  public boolean hasNext() {
    return drained < order.length || rows.hasNext();
  }

  @Override
  public Tuple2<byte[], byte[]> next() {
    if (drained == order.length) {
      if (!combining) {
        return single(rows.next());
      }
      fill();
    }
    int group = order[drained++];
    int from = start(group);
    byte[] key = Arrays.copyOfRange(keys.buffer(), from, ends[group]);
    return new Tuple2<>(key, delta(group, null));
  }

  private Tuple2<byte[], byte[]> single(Tuple2<byte[], byte[]> row) {
    groups.clear(1);
    parts[0] = NEW;
    if (sliced) {
      slices[0] = Slice.end(PackedRow.header(row._2()));
      rowCounts[0] = 0;
    }
    collect(0, row._2());
    return new Tuple2<>(row._1(), delta(0, carrying ? row._2() : null));
  }

  private void fill() {
    groups.clear(size);
    Arrays.fill(slots, 0);
    Arrays.fill(parts, 0, size, NEW);
    keys.reset();
    size = 0;
    drained = 0;
    long taken = 0;
    long bytes = 0;
    do {
      Tuple2<byte[], byte[]> row = rows.next();
      bytes += collect(group(row._1(), row._2()), row._2());
      taken++;
    } while (size < MAX_GROUPS && bytes + keys.size() < MAX_BYTES && rows.hasNext());
    LAST_SIZES.put(spec, size);
    sort();
    combining = taken >= order.length * WORTHWHILE;
  }

  private int group(byte[] key, byte[] row) {
    long slice = sliced ? Slice.end(PackedRow.header(row)) : 0;
    long hash = sliced ? Slice.hash(PackedRow.header(key), slice, MAX_GROUPS - 1) : PackedRow.header(key);
    int slot = slot(hash);
    while (slots[slot] != 0) {
      int found = slots[slot] - 1;
      if (hashes[found] == hash
          && (!sliced || slices[found] == slice)
          && Arrays.equals(keys.buffer(), start(found), ends[found], key, 0, key.length)) {
        return found;
      }
      slot = (slot + 1) & (slots.length - 1);
    }
    if (size == capacity) {
      grow();
      slot = free(hash);
    }
    keys.writeRaw(key, 0, key.length);
    ends[size] = keys.size();
    hashes[size] = hash;
    if (sliced) {
      slices[size] = slice;
      rowCounts[size] = 0;
    }
    slots[slot] = ++size;
    return size - 1;
  }

  /** Where a row of a group goes that may begin with removals. */
  private int part(int group, boolean adds) {
    if (parts[group] == NEW) {
      parts[group] = adds ? WHOLE : REMOVALS;
    } else if (parts[group] == REMOVALS && adds) {
      if (size == capacity) {
        grow();
      }
      ends[size] = keys.size();
      parts[size] = REST;
      parts[group] = size++;
    }
    return parts[group] > NEW ? parts[group] : group;
  }

  private int start(int group) {
    return group == 0 ? 0 : ends[group - 1];
  }

  private int slot(long hash) {
    return (int) hash & (slots.length - 1);
  }

  private int free(long hash) {
    int slot = slot(hash);
    while (slots[slot] != 0) {
      slot = (slot + 1) & (slots.length - 1);
    }
    return slot;
  }

  private void grow() {
    capacity *= 2;
    ends = Arrays.copyOf(ends, capacity);
    hashes = Arrays.copyOf(hashes, capacity);
    if (sliced) {
      slices = Arrays.copyOf(slices, capacity);
      rowCounts = Arrays.copyOf(rowCounts, capacity);
    }
    parts = Arrays.copyOf(parts, capacity);
    groups.grow(capacity);
    slots = new int[2 * capacity];
    for (int i = 0; i < size; i++) {
      if (parts[i] != REST) {
        slots[free(hashes[i])] = i + 1;
      }
    }
  }

  /** Orders the groups by the upper bits of their hashes, unsigned; the lower bits make room for the number. */
  private void sort() {
    long[] tagged = new long[size];
    long numbers = MAX_GROUPS - 1;
    int keyed = 0;
    for (int i = 0; i < size; i++) {
      if (parts[i] != REST) {
        tagged[keyed++] = ((hashes[i] ^ Long.MIN_VALUE) & ~numbers) | i;
      }
    }
    Arrays.sort(tagged, 0, keyed);
    order = new int[keyed];
    for (int i = 0; i < keyed; i++) {
      order[i] = (int) (tagged[i] & numbers);
    }
  }

  private long collect(int group, byte[] row) {
    PackedRow.point(arguments, row);
    if (sliced) {
      rowCounts[group]++;
    }
    boolean adds = !spec.retracting() || Header.adds(PackedRow.header(row));
    groups.at(spec.retracting() ? part(group, adds) : group);
    int sign = adds ? 1 : -1;
    long bytes = 0;
    for (Accumulator accumulator : all) {
      bytes += accumulator.collect(groups, arguments, sign);
    }
    return bytes;
  }

  /**
   * A delta behind the header of a row, and, where there are slices, its slice and the number of its rows, and behind it
   * the row that is carried, if there is one; its number puts it in its place where order matters, its kind tells how it
   * begins: with a removal and nothing else (-D), with removals of so many bytes before the rest (-U), or without (+I).
   */
  private byte[] delta(int group, byte[] carried) {
    delta.reset();
    delta.writeRaw(Packing.NOTHING, 0, PackedRow.HEADER);
    if (sliced) {
      delta.writeFixed64(slices[group]);
      delta.writeFixed64(rowCounts[group]);
    }
    int part = parts[group];
    if (part > NEW) {
      removals.reset();
      write(group, removals);
      delta.writeVarint(removals.size());
      delta.writeRaw(removals.buffer(), 0, removals.size());
      write(part, delta);
    } else {
      write(group, delta);
    }
    if (carried != null) {
      LateRows.attach(delta, carried);
    }
    byte[] bytes = delta.toBytes();
    if (!numbered) {
      return bytes;
    }
    long kind = part > NEW ? Header.UPDATE_BEFORE : part == REMOVALS ? Header.DELETE : Header.INSERT;
    return PackedRow.setHeader(bytes, Header.numbered(kind, task, deltas++));
  }

  private void write(int group, ByteWriter out) {
    groups.at(group);
    for (Accumulator accumulator : all) {
      accumulator.writeDelta(groups, out);
    }
  }
}
