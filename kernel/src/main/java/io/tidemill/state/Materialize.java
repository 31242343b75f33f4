package io.tidemill.state;

import io.tidemill.Fault;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/**
 * Keeps all rows that a query has for one primary key of a sink, in the order in which they came, and gives the sink one
 * of them: the last one, or the first one where a conflict does nothing. The query tells its rows apart by its own
 * upsert key or, without one, by all their columns.
 *
 * <p>State: how many rows have come, and a bag of rows by their arrival.
 */
final class Materialize extends KeyedProcessor {
  enum OnConflict {
    DEDUPLICATE,
    NOTHING,
    ERROR
  }

  /**
   * What the planner asks. {@code keyNames} are the names of the primary key's columns, for messages. {@code
   * insertOnly}: no row is ever taken out, so that one row of a key is all that need be kept.
   */
  record MaterializeSpec(
      String name,
      List<String> keys,
      List<String> keyNames,
      List<String> columns,
      List<String> upsertKey,
      OnConflict onConflict,
      boolean insertOnly,
      List<Long> ttl,
      TimeSpec clock)
      implements Serializable {}

  private final MaterializeSpec spec;
  private final StructType keys;
  private final StructType columns;
  private final Counts counts;

  private transient Bag bag;
  private transient SortKey upsertKey;
  private transient UnsafeRow row;
  /** The rows of the key at hand by their arrival, and their arrivals by what tells them apart. */
  private transient TreeMap<Long, byte[]> live;
  private transient Map<ByteBuffer, ArrayDeque<Long>> arrivals;

  private Materialize(MaterializeSpec spec, StructType keys, StructType columns, Counts counts) {
    super(spec.name(), false, true);
    this.spec = spec;
    this.keys = keys;
    this.columns = columns;
    this.counts = counts;
  }

  static Dataset<Row> plan(Dataset<Row> input, MaterializeSpec spec, Counts counts) {
    StructType keys = Packing.columns(input.schema(), spec.keys(), spec.name());
    StructType columns = Packing.columns(input.schema(), spec.columns(), spec.name());
    Dataset<Tuple2<byte[], byte[]>> pairs = Packing.number(Packing.pack(input, keys, columns));
    KeyedProcessor operator =
        new Materialize(spec, keys, columns, counts).expiring(Expiry.after(spec.ttl())).timed(spec.clock());
    return Packing.unpack(operator.over(pairs), new StructType(), columns);
  }

  @Override
  boolean isPaged() {
    return true;
  }

  @Override
  void open(Pages pages) {
    bag = new Bag(0, pages, Expiry.NEVER); // the rows of a key are forgotten together
    upsertKey = spec.upsertKey() == null ? null : SortKey.identity(columns, spec.upsertKey());
    row = new UnsafeRow(columns.size());
    live = new TreeMap<>();
    arrivals = new HashMap<>();
  }

  @Override
  boolean process(byte[] key, ByteReader before, Iterator<byte[]> rows, ByteWriter after, Changes changes) {
    long next = read(before);
    byte[] old = seen();
    List<ByteBuffer> waiting = new ArrayList<>();
    List<ByteBuffer> replaced = new ArrayList<>();
    while (rows.hasNext()) {
      byte[] packed = rows.next();
      byte[] body = PackedRow.body(packed);
      if (!Header.adds(PackedRow.header(packed))) {
        remove(body, waiting, replaced);
      } else if (!waiting.remove(ByteBuffer.wrap(body))) {
        put(next++, body, replaced);
      }
    }
    if (!waiting.isEmpty()) {
      counts.add(Counts.UNKNOWN_DELETE, waiting.size());
    }
    if (spec.onConflict() == OnConflict.ERROR && arrivals.size() > 1) {
      throw conflict(key);
    }
    emit(old, seen(), changes);
    if (live.isEmpty()) {
      bag.drop();
      return false;
    }
    after.writeVarint(next);
    bag.write(after);
    return true;
  }

  @Override
  StructType kept() {
    return columns;
  }

  @Override
  void show(ByteReader state, Consumer<byte[]> rows) {
    read(state);
    live.values().forEach(body -> rows.accept(PackedRow.withHeader(0, body)));
  }

  /** Sets up the rows of a key; returns how many have come. */
  private long read(ByteReader before) {
    live.clear();
    arrivals.clear();
    if (before == null) {
      bag.clear();
      return 0;
    }
    long next = before.readVarint();
    bag.read(before);
    bag.all().forEachRemaining(entry -> keep(ByteBuffer.wrap(entry.key).getLong(), entry.value));
    return next;
  }

  private void keep(long arrival, byte[] body) {
    live.put(arrival, body);
    arrivals.computeIfAbsent(identity(body), k -> new ArrayDeque<>(2)).add(arrival);
  }

  private byte[] seen() {
    if (live.isEmpty()) {
      return null;
    }
    return (spec.onConflict() == OnConflict.NOTHING ? live.firstEntry() : live.lastEntry()).getValue();
  }

  private void put(long arrival, byte[] body, List<ByteBuffer> replaced) {
    ByteBuffer identity = identity(body);
    if (spec.insertOnly() && !live.isEmpty()) {
      if (spec.onConflict() == OnConflict.NOTHING) {
        return;
      }
      if (spec.onConflict() == OnConflict.DEDUPLICATE || arrivals.containsKey(identity)) {
        take(identity(live.firstEntry().getValue()));
      }
    } else if (upsertKey != null && arrivals.containsKey(identity)) {
      replaced.add(ByteBuffer.wrap(take(identity)));
    }
    keep(arrival, body);
    bag.put(place(arrival), body);
  }

  private void remove(byte[] body, List<ByteBuffer> waiting, List<ByteBuffer> replaced) {
    ByteBuffer identity = identity(body);
    ByteBuffer whole = ByteBuffer.wrap(body);
    ArrayDeque<Long> found = arrivals.get(identity);
    if (found == null) {
      waiting.add(whole);
    } else if (Arrays.equals(live.get(found.peek()), body) || !replaced.remove(whole)) {
      // A row that has been replaced already is out; else the key says which row is meant, whatever it has become.
      take(identity);
    }
  }

  /** Takes out the first row of those that are told apart by the same. */
  private byte[] take(ByteBuffer identity) {
    ArrayDeque<Long> found = arrivals.get(identity);
    long arrival = found.poll();
    if (found.isEmpty()) {
      arrivals.remove(identity);
    }
    bag.remove(place(arrival));
    return live.remove(arrival);
  }

  private ByteBuffer identity(byte[] body) {
    if (upsertKey == null) {
      return ByteBuffer.wrap(body);
    }
    row.pointTo(body, body.length);
    return ByteBuffer.wrap(upsertKey.of(row));
  }

  private static byte[] place(long arrival) {
    return ByteBuffer.allocate(Long.BYTES).putLong(arrival).array();
  }

  private static void emit(byte[] old, byte[] now, Changes changes) {
    if (now == null) {
      if (old != null) {
        changes.delete(Packing.NOTHING, PackedRow.withHeader(0, old));
      }
    } else if (old == null) {
      changes.insert(Packing.NOTHING, PackedRow.withHeader(0, now));
    } else if (!Arrays.equals(old, now)) {
      changes.update(Packing.NOTHING, PackedRow.withHeader(0, old), PackedRow.withHeader(0, now));
    }
  }

  private Fault conflict(byte[] key) {
    UnsafeRow values = PackedRow.point(new UnsafeRow(keys.size()), key);
    List<String> shown = new ArrayList<>();
    for (int i = 0; i < keys.size(); i++) {
      Object value = values.get(i, keys.apply(i).dataType());
      Object text = CatalystTypeConverters.convertToScala(value, keys.apply(i).dataType());
      shown.add(spec.keyNames().get(i) + " = " + text);
    }
    return new Fault(
        Fault.CONFLICT,
        spec.name() + ": " + arrivals.size() + " rows have the primary key (" + String.join(", ", shown) + ")",
        "ON CONFLICT DO NOTHING keeps the first one, ON CONFLICT DO DEDUPLICATE the last one");
  }
}
