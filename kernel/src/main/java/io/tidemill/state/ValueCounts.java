package io.tidemill.state;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;

/**
 * The values of one operand with how often each is there, in a {@link Bag}: what every call reads whose result is a
 * function of the values and not of their order, and what DISTINCT is made of where values go, too.
 *
 * <p>A value that a batch takes out more often than it was there waits for what puts it in; what waits in vain is
 * forgotten when the batch is through. Accumulators behind DISTINCT are fed then: with the values that are there and
 * were not before the batch, and without those that were; in the order in which the batch named them.
 */
final class ValueCounts implements Accumulator, Paged {
  /** The bytes that a row's operand is counted by, or null for a row that does not count. */
  interface Operand {
    byte[] get(SpecializedGetters row);
  }

  interface Weight {
    long get(SpecializedGetters row);
  }

  /** One call that looks at the values. */
  interface Reader {
    void result(Bag values, UnsafeRowWriter out);
  }

  // An entry of a map in a task's group: the two objects, the table's slot, the count.
  private static final int ENTRY_BYTES = 120;

  private final int slot;
  private final Operand operand;
  private final Weight weight;
  private final Sortable form;
  // In a map task this object is a map from value to count, else it is the bag.
  private final int counts;
  private final List<Reader> readers = new ArrayList<>();
  private final List<Accumulator> fed = new ArrayList<>();

  private Bag bag;
  private final UnsafeRowWriter single = new UnsafeRowWriter(1, 32);
  /** The values that this batch has named, and whether they were there before; kept for those that are fed. */
  private final Map<ByteBuffer, Boolean> touched = new LinkedHashMap<>();
  private final Set<ByteBuffer> waiting = new LinkedHashSet<>();

  /** {@code form} is how a fed accumulator sees a value; null if there will be none. */
  ValueCounts(int slot, Operand operand, Weight weight, Sortable form, int counts) {
    this.slot = slot;
    this.operand = operand;
    this.weight = weight;
    this.form = form;
    this.counts = counts;
  }

  void read(Reader reader) {
    readers.add(reader);
  }

  /** Feeds an accumulator, each value once; the value is the only field of its row. */
  void feed(Accumulator accumulator) {
    fed.add(accumulator);
  }

  @Override
  public void keepIn(Pages pages) {
    // The last result that was sent must be known: values are forgotten with their group, not one by one.
    bag = new Bag(slot, pages, Expiry.NEVER);
  }

  private Bag bag(Group group) {
    if (group.object(counts) == null) {
      bag.clear();
      group.setObject(counts, bag);
    }
    return bag;
  }

  @Override
  public void add(Group group, SpecializedGetters row, int sign) {
    byte[] value = operand.get(row);
    if (value != null) {
      change(bag(group), value, sign * weight.get(row));
    }
  }

  @Override
  @SuppressWarnings("unchecked")
  public int collect(Group group, SpecializedGetters row, int sign) {
    byte[] value = operand.get(row);
    if (value == null) {
      return 0;
    }
    Map<ByteBuffer, long[]> map = (Map<ByteBuffer, long[]>) group.object(counts);
    if (map == null) {
      map = new LinkedHashMap<>();
      group.setObject(counts, map);
    }
    int before = map.size();
    map.computeIfAbsent(ByteBuffer.wrap(value), v -> new long[1])[0] += sign * weight.get(row);
    return map.size() == before ? 0 : ENTRY_BYTES + value.length;
  }

  @Override
  @SuppressWarnings("unchecked")
  public void writeDelta(Group group, ByteWriter out) {
    Map<ByteBuffer, long[]> map = (Map<ByteBuffer, long[]>) group.object(counts);
    out.writeVarint(map == null ? 0 : map.size());
    if (map != null) {
      map.forEach(
          (value, count) -> {
            out.writeBytes(value.array(), 0, value.array().length);
            out.writeZigzag(count[0]);
          });
    }
  }

  @Override
  public void merge(Group group, ByteReader delta) {
    Bag values = bag(group);
    for (int size = delta.readLength(); size > 0; size--) {
      byte[] value = delta.readBytes();
      change(values, value, delta.readZigzag());
    }
  }

  private void change(Bag values, byte[] value, long more) {
    Bag.Entry entry = values.obtain(value);
    if (!fed.isEmpty()) {
      touched.putIfAbsent(ByteBuffer.wrap(value), entry.count > 0);
    }
    entry.count += more;
    if (entry.count == 0) {
      values.remove(value);
    } else if (entry.count < 0) {
      waiting.add(ByteBuffer.wrap(value));
    }
  }

  @Override
  public long settle(Group group) {
    Bag values = bag(group);
    long unknown = 0;
    for (ByteBuffer value : waiting) {
      Bag.Entry entry = values.get(value.array());
      if (entry != null && entry.count < 0) {
        unknown -= entry.count;
        values.remove(value.array());
      }
    }
    waiting.clear();
    touched.forEach(
        (value, before) -> {
          boolean now = values.get(value.array()) != null;
          if (now != before) {
            feed(group, value.array(), now ? 1 : -1);
          }
        });
    touched.clear();
    for (Accumulator accumulator : fed) {
      accumulator.settle(group);
    }
    return unknown;
  }

  private void feed(Group group, byte[] value, int sign) {
    single.reset();
    single.zeroOutNullBytes();
    form.set(single, 0, value);
    SpecializedGetters row = single.getRow();
    for (Accumulator accumulator : fed) {
      accumulator.add(group, row, sign);
    }
  }

  @Override
  public void drop(Group group) {
    bag(group).drop();
    waiting.clear();
    touched.clear();
    for (Accumulator accumulator : fed) {
      accumulator.drop(group);
    }
  }

  @Override
  public void write(Group group, ByteWriter out) {
    bag(group).write(out);
    for (Accumulator accumulator : fed) {
      accumulator.write(group, out);
    }
  }

  @Override
  public void read(Group group, ByteReader in) {
    bag.read(in);
    group.setObject(counts, bag);
    for (Accumulator accumulator : fed) {
      accumulator.read(group, in);
    }
  }

  @Override
  public void result(Group group, UnsafeRowWriter out) {
    for (Reader reader : readers) {
      reader.result(bag(group), out);
    }
    for (Accumulator accumulator : fed) {
      accumulator.result(group, out);
    }
  }

  /** Of what is fed, the order may be seen. */
  @Override
  public boolean ordered() {
    return fed.stream().anyMatch(Accumulator::ordered);
  }
}
