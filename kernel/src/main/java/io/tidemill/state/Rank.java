package io.tidemill.state;

import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/**
 * Top-N: of each partition the rows from {@code start} to {@code end} in an order, equal ones as they have come. What
 * leaves is the difference between what they were before a batch and what they are after it.
 *
 * <p>State: how many rows have come, the end if a column tells it, and a bag of rows by sort key and arrival. Rows that
 * are never taken out are kept up to the end only.
 */
final class Rank extends KeyedProcessor {
  enum Strategy {
    /** Rows are only put in. */
    APPEND,
    /** A row replaces the one of the same row key, and never moves back in the order. */
    UPDATE,
    /** Rows are put in and taken out. */
    RETRACT
  }

  /**
   * What the planner asks.
   *
   * <p>{@code end} is null where {@code endColumn} has it: the first row of a partition decides. {@code number}: whether
   * the place in the order is a column. {@code rowKey}: columns that tell the rows of a partition apart, or null. {@code
   * byRank}: whether a row takes the place of the one before it by its place in the order; else a row takes the place of
   * the one with its row key. {@code deletesByKey}: whether rows that leave must be deleted, because somebody who gets
   * no rows before an update goes by the row key.
   */
  record RankSpec(
      String name,
      List<String> partition,
      List<String> columns,
      List<SortKey.Column> order,
      long start,
      Long end,
      String endColumn,
      boolean number,
      Strategy strategy,
      List<String> rowKey,
      boolean byRank,
      boolean deletesByKey,
      boolean updateBefore,
      List<Long> ttl,
      TimeSpec clock)
      implements Serializable {}

  static final String NUMBER = "_number";

  private final RankSpec spec;
  private final StructType columns;
  private final Counts counts;

  private transient SortKey order;
  private transient SortKey rowKey;
  private transient Value.Word endValue;
  private transient int endOrdinal;
  private transient UnsafeRow row;
  private transient UnsafeRowWriter number;
  /** Rows by sort key and arrival. */
  private transient Bag top;
  /** With {@link Strategy#UPDATE}, where in {@code top} the row of a row key is. */
  private transient Bag places;
  private transient long size;
  private transient long arrivals;
  private transient long end;

  private Rank(RankSpec spec, StructType columns, Counts counts) {
    super(spec.name(), spec.updateBefore(), true);
    this.spec = spec;
    this.columns = columns;
    this.counts = counts;
  }

  static Dataset<Row> plan(Dataset<Row> input, RankSpec spec, Counts counts) {
    StructType partition = Packing.columns(input.schema(), spec.partition(), spec.name());
    StructType columns = Packing.columns(input.schema(), spec.columns(), spec.name());
    SortKey.check(columns, spec.order(), spec.name());
    Dataset<Tuple2<byte[], byte[]>> pairs = Packing.number(Packing.pack(input, partition, columns));
    if (spec.strategy() == Strategy.APPEND && spec.end() != null && spec.end() > 0) {
      MapPartitionsFunction<Tuple2<byte[], byte[]>, Tuple2<byte[], byte[]>> first =
          rows -> new FirstRows(rows, columns, spec.order(), spec.end());
      pairs = pairs.mapPartitions(first, Packing.PAIRS);
    }
    Dataset<Tuple2<byte[], byte[]>> ranked =
        new Rank(spec, columns, counts).expiring(Expiry.after(spec.ttl())).timed(spec.clock()).over(pairs);
    return spec.number()
        ? Packing.unpack(ranked, columns, new StructType().add(NUMBER, DataTypes.LongType, false))
        : Packing.unpack(ranked, new StructType(), columns);
  }

  @Override
  boolean isPaged() {
    return true;
  }

  @Override
  void open(Pages pages) {
    order = new SortKey(columns, spec.order());
    rowKey = spec.rowKey() == null ? null : SortKey.identity(columns, spec.rowKey());
    if (spec.endColumn() != null) {
      endOrdinal = columns.fieldIndex(spec.endColumn());
      endValue = (Value.Word) Value.of(columns.apply(endOrdinal).dataType());
    }
    row = new UnsafeRow(columns.size());
    number = new UnsafeRowWriter(1);
    top = new Bag(0, pages, Expiry.NEVER); // places in an order are forgotten together
    places = new Bag(1, pages, Expiry.NEVER);
  }

  @Override
  boolean process(byte[] key, ByteReader before, Iterator<byte[]> rows, ByteWriter after, Changes changes) {
    List<byte[]> batch = new ArrayList<>();
    rows.forEachRemaining(batch::add);
    read(before, batch.get(0));
    if (spec.endColumn() != null) {
      long others = batch.stream().filter(r -> endOf(r) != end).count();
      if (others > 0) {
        counts.add(Counts.RANK_END, others);
      }
    }
    List<byte[]> old = inRange();
    switch (spec.strategy()) {
      case APPEND -> append(batch);
      case UPDATE -> update(batch);
      case RETRACT -> retract(batch);
    }
    emit(old, inRange(), changes);
    if (top.isEmpty() && spec.endColumn() == null) {
      top.drop();
      places.drop();
      return false;
    }
    write(after);
    return true;
  }

  @Override
  StructType kept() {
    return columns;
  }

  @Override
  void show(ByteReader state, Consumer<byte[]> rows) {
    read(state, null);
    top.all().forEachRemaining(entry -> rows.accept(PackedRow.withHeader(0, entry.value)));
  }

  private void read(ByteReader before, byte[] first) {
    if (before == null) {
      arrivals = 0;
      end = spec.endColumn() == null ? spec.end() : endOf(first);
      top.clear();
      places.clear();
      size = 0;
      return;
    }
    arrivals = before.readVarint();
    end = spec.endColumn() == null ? spec.end() : before.readZigzag();
    top.read(before);
    if (spec.strategy() == Strategy.UPDATE) {
      places.read(before);
    }
    size = top.size();
  }

  private void write(ByteWriter after) {
    after.writeVarint(arrivals);
    if (spec.endColumn() != null) {
      after.writeZigzag(end);
    }
    top.write(after);
    if (spec.strategy() == Strategy.UPDATE) {
      places.write(after);
    }
  }

  private long endOf(byte[] packed) {
    PackedRow.point(row, packed);
    return row.isNullAt(endOrdinal) ? 0 : endValue.get(row, endOrdinal);
  }

  /** The rows that are seen, in their order. */
  private List<byte[]> inRange() {
    List<byte[]> found = new ArrayList<>();
    Bag.Cursor entries = top.all();
    for (long rank = 1; rank <= end && entries.hasNext(); rank++) {
      byte[] value = entries.next().value;
      if (rank >= spec.start()) {
        found.add(value);
      }
    }
    return found;
  }

  // --- what the rows of a batch do ---------------------------------------------------------------

  /** A packed row, and where it belongs in {@code top}. */
  private record Placed(byte[] place, byte[] packed) {}

  private void append(List<byte[]> batch) {
    List<Placed> placed = new ArrayList<>();
    for (byte[] packed : batch) {
      placed.add(new Placed(order.of(PackedRow.point(row, packed), arrivals + placed.size()), packed));
    }
    insertFirst(placed);
  }

  private void update(List<byte[]> batch) {
    Map<ByteBuffer, byte[]> latest = new LinkedHashMap<>();
    for (byte[] packed : batch) {
      latest.put(ByteBuffer.wrap(rowKey.of(PackedRow.point(row, packed))), packed);
    }
    List<Placed> placed = new ArrayList<>();
    latest.forEach(
        (key, packed) -> {
          PackedRow.point(row, packed);
          Bag.Entry place = places.get(key.array());
          if (place != null && SortKey.begins(order.of(row), place.value)) {
            top.put(place.value, PackedRow.body(packed));
            return;
          }
          if (place != null) {
            top.remove(place.value);
            places.remove(key.array());
            size--;
          }
          placed.add(new Placed(order.of(row, arrivals + placed.size()), packed));
        });
    insertFirst(placed);
  }

  /** Puts in those rows that belong to the first ones, and forgets what lies behind the end. */
  private void insertFirst(List<Placed> placed) {
    if (end <= 0) {
      return;
    }
    long arrived = arrivals + placed.size();
    byte[] last = size >= end ? top.last().key : null;
    if (last != null) {
      placed.removeIf(each -> Arrays.compareUnsigned(each.place, last) > 0);
    }
    sort(placed);
    for (Placed each : placed.subList(0, (int) Math.min(end, placed.size()))) {
      top.put(each.place, PackedRow.body(each.packed));
      if (spec.strategy() == Strategy.UPDATE) {
        places.put(rowKey.of(PackedRow.point(row, each.packed)), each.place);
      }
      arrivals = arrived;
      size++;
    }
    for (; size > end; size--) {
      Bag.Entry gone = top.last();
      top.remove(gone.key);
      if (spec.strategy() == Strategy.UPDATE) {
        places.remove(rowKey.of(bodyRow(gone.value)));
      }
    }
  }

  /** A bag that grows much in a batch then only grows at its end. */
  private static void sort(List<Placed> placed) {
    placed.sort((a, b) -> Arrays.compareUnsigned(a.place, b.place));
  }

  private void retract(List<byte[]> batch) {
    List<Placed> placed = new ArrayList<>();
    Map<ByteBuffer, Map<ByteBuffer, Integer>> removals = new LinkedHashMap<>();
    for (byte[] packed : batch) {
      PackedRow.point(row, packed);
      if (Header.adds(PackedRow.header(packed))) {
        placed.add(new Placed(order.of(row, arrivals++), packed));
      } else {
        removals
            .computeIfAbsent(ByteBuffer.wrap(order.of(row)), k -> new HashMap<>())
            .merge(ByteBuffer.wrap(PackedRow.body(packed)), 1, Integer::sum);
      }
    }
    sort(placed);
    for (Placed each : placed) {
      top.put(each.place, PackedRow.body(each.packed));
    }
    // Of equal rows the first one goes, and it is the same one whether or not others come in the same batch: so all
    // removals may wait until all rows are in, and each sort key is looked through once.
    List<byte[]> gone = new ArrayList<>();
    long unknown = 0;
    for (Map.Entry<ByteBuffer, Map<ByteBuffer, Integer>> removal : removals.entrySet()) {
      byte[] sortKey = removal.getKey().array();
      Map<ByteBuffer, Integer> wanted = removal.getValue();
      Bag.Cursor entries = top.from(sortKey);
      while (!wanted.isEmpty() && entries.hasNext()) {
        Bag.Entry entry = entries.next();
        if (!SortKey.begins(sortKey, entry.key)) {
          break;
        }
        ByteBuffer body = ByteBuffer.wrap(entry.value);
        if (wanted.containsKey(body)) {
          wanted.computeIfPresent(body, (b, count) -> count == 1 ? null : count - 1);
          gone.add(entry.key);
        }
      }
      unknown += wanted.values().stream().mapToInt(count -> count).sum();
    }
    gone.forEach(top::remove);
    if (unknown > 0) {
      counts.add(Counts.UNKNOWN_DELETE, unknown);
    }
  }

  private UnsafeRow bodyRow(byte[] body) {
    row.pointTo(body, body.length);
    return row;
  }

  // --- what leaves -------------------------------------------------------------------------------

  private void emit(List<byte[]> old, List<byte[]> now, Changes changes) {
    if (!spec.byRank()) {
      emitByKey(old, now, changes);
      return;
    }
    boolean deletesByKey = spec.deletesByKey() && !changes.updateBefore();
    Set<ByteBuffer> stay = new HashSet<>();
    if (deletesByKey) {
      now.forEach(body -> stay.add(identity(body)));
    }
    List<byte[]> replaced = new ArrayList<>(old);
    for (int i = 0; i < old.size(); i++) {
      if (i >= now.size() || deletesByKey && !stay.contains(identity(old.get(i)))) {
        send(Header.DELETE, old.get(i), i, changes);
        replaced.set(i, null);
      }
    }
    for (int i = 0; i < now.size(); i++) {
      sendReplacing(i < old.size() ? replaced.get(i) : null, now.get(i), i, changes);
    }
  }

  /** A row takes the place of the one with its key; without a key only equal rows are the same. */
  private void emitByKey(List<byte[]> old, List<byte[]> now, Changes changes) {
    int same = 0;
    while (same < Math.min(old.size(), now.size()) && Arrays.equals(old.get(same), now.get(same))) {
      same++;
    }
    Map<ByteBuffer, ArrayDeque<byte[]>> before = new LinkedHashMap<>();
    for (byte[] body : old.subList(same, old.size())) {
      before.computeIfAbsent(identity(body), k -> new ArrayDeque<>()).add(body);
    }
    List<byte[]> replaced = new ArrayList<>();
    for (byte[] body : now.subList(same, now.size())) {
      ArrayDeque<byte[]> found = before.get(identity(body));
      replaced.add(found == null ? null : found.poll());
    }
    before.values().forEach(left -> left.forEach(body -> send(Header.DELETE, body, 0, changes)));
    for (int i = 0; i < replaced.size(); i++) {
      sendReplacing(replaced.get(i), now.get(same + i), 0, changes);
    }
  }

  private void sendReplacing(byte[] old, byte[] now, int place, Changes changes) {
    if (old == null) {
      send(Header.INSERT, now, place, changes);
    } else if (!Arrays.equals(old, now)) {
      if (changes.updateBefore()) {
        send(Header.UPDATE_BEFORE, old, place, changes);
      }
      send(Header.UPDATE_AFTER, now, place, changes);
    }
  }

  private ByteBuffer identity(byte[] body) {
    return ByteBuffer.wrap(rowKey == null ? body : rowKey.of(bodyRow(body)));
  }

  private void send(int kind, byte[] body, int place, Changes changes) {
    byte[] packed = PackedRow.withHeader(0, body);
    if (!spec.number()) {
      changes.add(kind, Packing.NOTHING, packed);
      return;
    }
    number.reset();
    number.zeroOutNullBytes();
    number.write(0, spec.start() + place);
    changes.add(kind, packed, PackedRow.packRow(number.getRow(), 0));
  }
}
