package io.tidemill.state;

import java.util.Arrays;
import java.util.Iterator;
import java.util.NoSuchElementException;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.execution.streaming.state.RangeKeyScanStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.StateStoreIterator;
import org.apache.spark.sql.execution.streaming.state.UnsafeRowPair;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * What the keys of a task have at some time, in the order of time: (time, key) → value. It is state and timer in one:
 * what is due is at the front, is found without looking at anything that is not, and leaves by one call.
 */
final class Timeline {
  static final StructType KEY =
      new StructType()
          .add("time", DataTypes.LongType, false)
          // The key's header: keys of one time are in the order in which Spark hands them over.
          .add("hash", DataTypes.LongType, false)
          .add("key", DataTypes.BinaryType, false);
  static final StructType VALUE = new StructType().add("value", DataTypes.BinaryType, false);
  static final RangeKeyScanStateEncoderSpec ORDER =
      new RangeKeyScanStateEncoderSpec(KEY, PackedRow.seq((Object) 0, (Object) 1));
  private static final byte[] NO_KEY = {};

  private final Store store;
  private final String name;
  private final UnsafeRowWriter keys = new UnsafeRowWriter(3, 64);
  private final UnsafeRowWriter values = new UnsafeRowWriter(1, 64);

  Timeline(Store store, String name) {
    this.store = store;
    this.name = name;
    store.create(name, KEY, VALUE, ORDER);
  }

  /** A key at its time, with its value. */
  record Entry(long time, byte[] key, byte[] value) {}

  byte[] get(long time, byte[] key) {
    UnsafeRow found = store.get(name, key(time, key));
    return found == null ? null : found.getBinary(0);
  }

  void put(long time, byte[] key, byte[] value) {
    values.reset();
    values.write(0, value);
    store.put(name, key(time, key), values.getRow());
  }

  void remove(long time, byte[] key) {
    store.remove(name, key(time, key));
  }

  /** The same of one who knows whether there was a value. */
  void put(long time, byte[] key, byte[] value, boolean isNew) {
    store.count().known(isNew ? 1 : 0, () -> put(time, key, value));
  }

  /** The same of one who knows that there is a value. */
  void take(long time, byte[] key) {
    store.count().known(-1, () -> remove(time, key));
  }

  /** The order of keys that have the same time. */
  static int compare(byte[] a, byte[] b) {
    int byHash = Long.compareUnsigned(PackedRow.header(a), PackedRow.header(b));
    if (byHash != 0) {
      return byHash;
    }
    // As Spark's rows are ordered, byte by byte: their length comes first, little end first.
    int byLength = Integer.compareUnsigned(Integer.reverseBytes(a.length), Integer.reverseBytes(b.length));
    return byLength != 0 ? byLength : Arrays.compareUnsigned(a, b);
  }

  boolean isEmpty() {
    try (Entries all = entries(Long.MIN_VALUE, Long.MAX_VALUE)) {
      return !all.hasNext();
    }
  }

  /** The entries from one time up to another, without it, in their order; what changes meanwhile is not seen. */
  Entries entries(long from, long until) {
    UnsafeRow first = key(from, NO_KEY).copy();
    return new Entries(store.range(name, first, key(until, NO_KEY)));
  }

  private UnsafeRow key(long time, byte[] key) {
    keys.reset();
    keys.write(0, time);
    keys.write(1, key.length == 0 ? Long.MIN_VALUE : PackedRow.header(key) ^ Long.MIN_VALUE);
    keys.write(2, key);
    return keys.getRow();
  }

  /** To be closed, if it is not read to its end. */
  static final class Entries implements Iterator<Entry>, AutoCloseable {
    private final StateStoreIterator<UnsafeRowPair> pairs;
    private boolean isOpen = true;

    private Entries(StateStoreIterator<UnsafeRowPair> pairs) {
      this.pairs = pairs;
    }

    @Override
    public boolean hasNext() {
      if (isOpen && !pairs.hasNext()) {
        close();
      }
      return isOpen;
    }

    @Override
    public Entry next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      UnsafeRowPair pair = pairs.next();
      return new Entry(pair.key().getLong(0), pair.key().getBinary(2), pair.value().getBinary(0));
    }

    @Override
    public void close() {
      if (isOpen) {
        isOpen = false;
        pairs.close();
      }
    }
  }
}
