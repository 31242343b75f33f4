package io.tidemill.state;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;

/**
 * The values of one argument in the order of their arrival: what every call reads that asks for the first, the last or
 * all of them. Of equal values the first goes first, as in Flink.
 *
 * <p>The values lie by their place in one {@link Bag}. Where values go, a second one has their places by value, so that
 * a value is found without reading the others. A delta carries the values as they came, with their signs. A value that
 * is taken out before it is put in waits for that until the batch is through.
 */
final class ValueSequence implements Accumulator, Paged {
  /** One call that looks at the values: entries in their order, whose mark says whether one is NULL. */
  interface Reader {
    void result(Bag values, UnsafeRowWriter out);
  }

  private static final int TAKEN_OUT = 1;
  private static final int NULL = 2;
  private static final byte[] NOTHING = {};

  private final int slot;
  private final int argument;
  private final Sortable form;
  private final boolean nulls;
  private final boolean retracting;
  // Slots: the next place; in a map task what came, as bytes, else the bag of values.
  private final int next;
  private final int values;
  private final List<Reader> readers = new ArrayList<>();

  private Bag byPlace;
  private Bag byValue;
  /** How often a value, as a key without a place, has been taken out in vain. */
  private final Map<ByteBuffer, Integer> waiting = new HashMap<>();

  /** Takes two slots of pages; {@code nulls}: whether NULLs are values too. */
  ValueSequence(int slot, int argument, Sortable form, boolean nulls, boolean retracting, int next, int values) {
    this.slot = slot;
    this.argument = argument;
    this.form = form;
    this.nulls = nulls;
    this.retracting = retracting;
    this.next = next;
    this.values = values;
  }

  void read(Reader reader) {
    readers.add(reader);
  }

  static boolean isNull(Bag.Entry entry) {
    return entry.mark != 0;
  }

  @Override
  public void keepIn(Pages pages) {
    // As for counts of values: they are forgotten with their group.
    byPlace = new Bag(slot, pages, Expiry.NEVER);
    byValue = new Bag(slot + 1, pages, Expiry.NEVER);
  }

  private Bag values(Group group) {
    if (group.object(values) == null) {
      byPlace.clear();
      byValue.clear();
      group.setObject(values, byPlace);
    }
    return byPlace;
  }

  @Override
  public void add(Group group, SpecializedGetters row, int sign) {
    if (!row.isNullAt(argument)) {
      change(group, form.get(row, argument), sign);
    } else if (nulls) {
      change(group, null, sign);
    }
  }

  @Override
  public int collect(Group group, SpecializedGetters row, int sign) {
    boolean isNull = row.isNullAt(argument);
    if (isNull && !nulls) {
      return 0;
    }
    ByteWriter came = (ByteWriter) group.object(values);
    int cost = 0;
    if (came == null) {
      came = new ByteWriter(32);
      group.setObject(values, came);
      cost = 64;
    }
    int before = came.size();
    came.writeByte((sign < 0 ? TAKEN_OUT : 0) | (isNull ? NULL : 0));
    if (!isNull) {
      byte[] value = form.get(row, argument);
      came.writeBytes(value, 0, value.length);
    }
    return cost + came.size() - before;
  }

  @Override
  public void writeDelta(Group group, ByteWriter out) {
    ByteWriter came = (ByteWriter) group.object(values);
    if (came == null) {
      out.writeVarint(0);
    } else {
      out.writeBytes(came.buffer(), 0, came.size());
    }
  }

  @Override
  public void merge(Group group, ByteReader delta) {
    int length = delta.readLength();
    int end = delta.position() + length;
    while (delta.position() < end) {
      int flags = delta.readByte();
      byte[] value = (flags & NULL) != 0 ? null : delta.readBytes();
      change(group, value, (flags & TAKEN_OUT) != 0 ? -1 : 1);
    }
  }

  private void change(Group group, byte[] value, int sign) {
    Bag sequence = values(group);
    if (!retracting) {
      append(group, sequence, value);
      return;
    }
    byte[] key = key(value);
    if (sign < 0) {
      byte[] place = firstPlace(key);
      if (place == null) {
        waiting.merge(ByteBuffer.wrap(key), 1, Integer::sum);
      } else {
        sequence.remove(place);
        byValue.remove(concat(key, place));
      }
    } else if (waiting.isEmpty() || waiting.computeIfPresent(ByteBuffer.wrap(key), (k, n) -> n - 1) == null) {
      byValue.put(concat(key, append(group, sequence, value)), NOTHING);
    } else {
      waiting.remove(ByteBuffer.wrap(key), 0);
    }
  }

  private byte[] append(Group group, Bag sequence, byte[] value) {
    byte[] place = Sortable.bytes(group.word(next));
    group.addToWord(next, 1);
    Bag.Entry entry = sequence.obtain(place);
    entry.count = 1;
    entry.mark = value == null ? 1 : 0;
    entry.value = value == null ? NOTHING : value;
    return place;
  }

  /** A value as the beginning of a key of {@link #byValue}: no such beginning is the beginning of another one. */
  private static byte[] key(byte[] value) {
    return value == null
        ? new byte[Integer.BYTES]
        : ByteBuffer.allocate(Integer.BYTES + value.length).putInt(value.length + 1).put(value).array();
  }

  private byte[] firstPlace(byte[] key) {
    Bag.Cursor found = byValue.from(key);
    if (!found.hasNext()) {
      return null;
    }
    byte[] first = found.next().key;
    boolean same = Arrays.equals(first, 0, Math.min(key.length, first.length), key, 0, key.length);
    return same ? Arrays.copyOfRange(first, key.length, first.length) : null;
  }

  private static byte[] concat(byte[] key, byte[] place) {
    return ByteBuffer.allocate(key.length + place.length).put(key).put(place).array();
  }

  @Override
  public long settle(Group group) {
    long unknown = waiting.values().stream().mapToLong(Integer::longValue).sum();
    waiting.clear();
    return unknown;
  }

  @Override
  public void drop(Group group) {
    values(group).drop();
    byValue.drop();
    waiting.clear();
  }

  @Override
  public void write(Group group, ByteWriter out) {
    out.writeVarint(group.word(next));
    values(group).write(out);
    if (retracting) {
      byValue.write(out);
    }
  }

  @Override
  public void read(Group group, ByteReader in) {
    group.setWord(next, in.readVarint());
    byPlace.read(in);
    if (retracting) {
      byValue.read(in);
    }
    group.setObject(values, byPlace);
  }

  @Override
  public void result(Group group, UnsafeRowWriter out) {
    for (Reader reader : readers) {
      reader.result(values(group), out);
    }
  }

  @Override
  public boolean ordered() {
    return true;
  }
}
