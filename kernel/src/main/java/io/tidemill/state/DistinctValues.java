package io.tidemill.state;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;

/**
 * The distinct values of one argument under one filter, and the accumulators that each new value is fed to.
 *
 * <p>Up to {@link #INLINE_LIMIT} values lie in the group's own state. A larger set lies in buckets of about
 * {@link #BUCKET_SIZE} values beside it, found by linear hashing: a batch reads only the buckets that its values fall
 * into and rewrites only those that gain one, the number of buckets grows one split at a time, and no directory is
 * kept but that number.
 */
final class DistinctValues implements Accumulator, Paged {
  static final int INLINE_LIMIT = 64;
  static final int BUCKET_SIZE = 128;
  private static final int BUCKET_VERSION = 1;

  private final int id;
  private final Value value;
  private final int argument;
  // Slots: how many values, how many buckets (0: inline), and the inline values as a ByteSet or as stored bytes.
  private final int size;
  private final int buckets;
  private final int inline;
  private final List<Accumulator> fed = new ArrayList<>();
  private boolean fedWithValues;

  private Pages store;
  private final ByteSet bucket = new ByteSet();
  private final Value.Slice slice = new Value.Slice();
  private final ByteWriter scratch = new ByteWriter(16);
  private final ByteWriter one = new ByteWriter(16);
  private final ByteReader scratchReader = new ByteReader();
  private final UnsafeRowWriter single = new UnsafeRowWriter(1, 32);

  DistinctValues(int id, Value value, int argument, int size, int buckets, int inline) {
    this.id = id;
    this.value = value;
    this.argument = argument;
    this.size = size;
    this.buckets = buckets;
    this.inline = inline;
  }

  /** Feeds an accumulator; {@code withValue} if it looks at the value, which is then the only field of its row. */
  void feed(Accumulator accumulator, boolean withValue) {
    fed.add(accumulator);
    fedWithValues |= withValue;
  }

  @Override
  public void keepIn(Pages pages) {
    store = pages;
  }

  @Override
  public void add(Group group, SpecializedGetters row, int sign) {
    if (sign < 0) {
      throw new UnsupportedOperationException("a distinct set only grows");
    }
    if (find(row)) {
      one.reset();
      one.writeBytes(slice.bytes, slice.from, slice.length);
      merge(group, one.buffer(), 0, one.size());
    }
  }

  /** Points at the value of a row; false where it is null. */
  private boolean find(SpecializedGetters row) {
    if (row.isNullAt(argument)) {
      return false;
    }
    if (value instanceof Value.Word word) {
      scratch.reset();
      scratch.writeZigzag(word.get(row, argument));
      slice.set(scratch.buffer(), 0, scratch.size());
    } else {
      ((Value.Bytes) value).get(row, argument, slice);
    }
    return true;
  }

  @Override
  public int collect(Group group, SpecializedGetters row, int sign) {
    if (!find(row)) {
      return 0;
    }
    ByteSet set = (ByteSet) group.object(inline);
    int cost = 0;
    if (set == null) {
      set = new ByteSet();
      group.setObject(inline, set);
      cost = 256;
    }
    // An entry takes its bytes and, at half load, about four ints of the index.
    return set.add(slice.bytes, slice.from, slice.length) ? cost + slice.length + 17 : cost;
  }

  @Override
  public void writeDelta(Group group, ByteWriter out) {
    ByteSet set = (ByteSet) group.object(inline);
    if (set == null) {
      out.writeVarint(0);
    } else {
      out.writeBytes(set.arena(), 0, set.arenaSize());
    }
  }

  @Override
  public void merge(Group group, ByteReader delta) {
    int length = delta.readLength();
    int from = delta.skip(length);
    if (length > 0) {
      merge(group, delta.buffer(), from, length);
    }
  }

  private void merge(Group group, byte[] values, int from, int length) {
    if (group.word(buckets) == 0) {
      mergeInline(group, values, from, length);
    } else {
      while (group.word(buckets) * BUCKET_SIZE < group.word(size)) {
        split(group);
      }
      mergeBuckets(group, values, from, length);
    }
  }

  private void mergeInline(Group group, byte[] values, int from, int length) {
    ByteSet set;
    if (group.object(inline) instanceof byte[] stored) {
      set = new ByteSet();
      set.load(stored, 0, stored.length);
      group.setObject(inline, set);
    } else if (group.object(inline) == null) {
      set = new ByteSet();
      group.setObject(inline, set);
    } else {
      set = (ByteSet) group.object(inline);
    }
    ByteReader reader = new ByteReader().over(values, from, length);
    while (reader.hasMore()) {
      int valueLength = reader.readLength();
      int at = reader.skip(valueLength);
      if (set.add(values, at, valueLength)) {
        admit(group, values, at, valueLength);
      }
    }
    if (set.size() > INLINE_LIMIT) {
      spill(group, set);
    }
  }

  private void spill(Group group, ByteSet set) {
    int count = Math.max(1, (set.size() + BUCKET_SIZE - 1) / BUCKET_SIZE);
    group.setWord(buckets, count);
    group.setObject(inline, null);
    Placed placed = place(set.arena(), 0, set.arenaSize(), count);
    placed.forEachBucket(
        (number, first, last) -> {
          bucket.clear();
          for (int i = first; i < last; i++) {
            bucket.append(set.arena(), placed.from(i), placed.length(i));
          }
          write(number, bucket);
        });
  }

  private void mergeBuckets(Group group, byte[] values, int from, int length) {
    Placed placed = place(values, from, length, (int) group.word(buckets));
    placed.forEachBucket(
        (number, first, last) -> {
          load(number);
          int before = bucket.size();
          for (int i = first; i < last; i++) {
            if (bucket.add(values, placed.from(i), placed.length(i), placed.hash(i))) {
              admit(group, values, placed.from(i), placed.length(i));
            }
          }
          if (bucket.size() != before) {
            write(number, bucket);
          }
        });
  }

  /** One step of linear hashing: the next bucket in turn gives the values that now belong to a new last one. */
  private void split(Group group) {
    int count = (int) group.word(buckets);
    int source = count - Integer.highestOneBit(count);
    load(source);
    ByteSet stay = new ByteSet();
    ByteSet move = new ByteSet();
    ByteReader reader = new ByteReader().over(bucket.arena(), 0, bucket.arenaSize());
    while (reader.hasMore()) {
      int length = reader.readLength();
      int at = reader.skip(length);
      long hash = ByteSet.hash(reader.buffer(), at, length);
      (address(hash, count + 1) == source ? stay : move).append(reader.buffer(), at, length);
    }
    write(source, stay);
    write(count, move);
    group.setWord(buckets, count + 1);
  }

  static int address(long hash, int count) {
    int level = Integer.highestOneBit(count);
    int address = (int) (hash & (2L * level - 1));
    return address < count ? address : address & (level - 1);
  }

  private void load(int number) {
    byte[] stored = store.get(key(number));
    if (stored == null) {
      bucket.clear();
      return;
    }
    if (stored[0] != BUCKET_VERSION) {
      throw new IllegalStateException("distinct values written by another version (" + stored[0] + ")");
    }
    bucket.load(stored, 1, stored.length - 1);
  }

  private void write(int number, ByteSet set) {
    byte[] content = new byte[1 + set.arenaSize()];
    content[0] = BUCKET_VERSION;
    System.arraycopy(set.arena(), 0, content, 1, set.arenaSize());
    store.put(key(number), content);
  }

  private long key(int number) {
    return ((long) id << 32) | number;
  }

  private void admit(Group group, byte[] bytes, int from, int length) {
    group.addToWord(size, 1);
    SpecializedGetters row = null;
    if (fedWithValues) {
      single.reset();
      single.zeroOutNullBytes();
      if (value instanceof Value.Word word) {
        word.set(single, 0, scratchReader.over(bytes, from, length).readZigzag());
      } else {
        ((Value.Bytes) value).set(single, 0, Arrays.copyOfRange(bytes, from, from + length));
      }
      row = single.getRow();
    }
    for (Accumulator accumulator : fed) {
      accumulator.add(group, row, 1);
    }
  }

  @Override
  public void write(Group group, ByteWriter out) {
    out.writeVarint(group.word(size));
    out.writeVarint(group.word(buckets));
    if (group.object(inline) instanceof ByteSet set) {
      out.writeBytes(set.arena(), 0, set.arenaSize());
    } else if (group.object(inline) instanceof byte[] stored) {
      out.writeBytes(stored, 0, stored.length);
    } else {
      out.writeVarint(0);
    }
    for (Accumulator accumulator : fed) {
      accumulator.write(group, out);
    }
  }

  @Override
  public void read(Group group, ByteReader in) {
    group.setWord(size, in.readVarint());
    group.setWord(buckets, in.readVarint());
    byte[] stored = in.readBytes();
    group.setObject(inline, stored.length == 0 ? null : stored);
    for (Accumulator accumulator : fed) {
      accumulator.read(group, in);
    }
  }

  @Override
  public void result(Group group, UnsafeRowWriter out) {
    for (Accumulator accumulator : fed) {
      accumulator.result(group, out);
    }
  }

  @Override
  public boolean ordered() {
    return fed.stream().anyMatch(Accumulator::ordered);
  }

  private interface BucketVisitor {
    void visit(int number, int first, int last);
  }

  /** Values sorted by the bucket they fall into, in their own order within a bucket. */
  private record Placed(long[] order, int[] froms, int[] lengths, long[] hashes) {
    int from(int i) {
      return froms[(int) order[i]];
    }

    int length(int i) {
      return lengths[(int) order[i]];
    }

    long hash(int i) {
      return hashes[(int) order[i]];
    }

    void forEachBucket(BucketVisitor visitor) {
      for (int first = 0; first < order.length; ) {
        int number = (int) (order[first] >>> 32);
        int last = first + 1;
        while (last < order.length && (int) (order[last] >>> 32) == number) {
          last++;
        }
        visitor.visit(number, first, last);
        first = last;
      }
    }
  }

  private static Placed place(byte[] values, int from, int length, int count) {
    int capacity = 64;
    int[] froms = new int[capacity];
    int[] lengths = new int[capacity];
    int n = 0;
    ByteReader reader = new ByteReader().over(values, from, length);
    while (reader.hasMore()) {
      if (n == capacity) {
        capacity *= 2;
        froms = Arrays.copyOf(froms, capacity);
        lengths = Arrays.copyOf(lengths, capacity);
      }
      lengths[n] = reader.readLength();
      froms[n] = reader.skip(lengths[n]);
      n++;
    }
    long[] hashes = new long[n];
    long[] order = new long[n];
    for (int i = 0; i < n; i++) {
      hashes[i] = ByteSet.hash(values, froms[i], lengths[i]);
      order[i] = ((long) address(hashes[i], count) << 32) | i;
    }
    Arrays.sort(order);
    return new Placed(order, froms, lengths, hashes);
  }
}
