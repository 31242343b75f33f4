package io.tidemill.state;

import java.io.Serializable;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.function.Consumer;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/**
 * The first or the last row of each key of an append-only stream. The first one is the one that came first; the last
 * one is the one that came last or, by a rowtime, that of the latest time, and of equal times the one that came last.
 *
 * <p>State: the last row, or nothing but that there was a first one. Rows that change nothing do not keep it alive.
 */
final class Deduplicate extends KeyedProcessor {
  /**
   * What the planner asks. {@code time} is the column of the rowtime or, if arrival counts, of the processing time.
   * {@code every}: each last row is told, and not just that of a batch.
   */
  record DeduplicateSpec(
      String name,
      List<String> keys,
      List<String> columns,
      String time,
      boolean rowtime,
      boolean last,
      boolean every,
      boolean updateBefore,
      List<Long> ttl,
      TimeSpec clock)
      implements Serializable {}

  /** Packed rows by time, then by number; NULL is before all times. */
  static final class ByTime implements Comparator<byte[]> {
    private final int time;
    private final UnsafeRow row;

    ByTime(StructType columns, String time) {
      this.time = columns.fieldIndex(time);
      this.row = new UnsafeRow(columns.size());
    }

    @Override
    public int compare(byte[] a, byte[] b) {
      int byTime = Long.compare(time(a), time(b));
      return byTime != 0 ? byTime : Header.BY_NUMBER.compare(a, b);
    }

    private long time(byte[] packed) {
      PackedRow.point(row, packed);
      return row.isNullAt(time) ? Long.MIN_VALUE : row.getLong(time);
    }
  }

  private final DeduplicateSpec spec;
  private final StructType columns;
  private transient Comparator<byte[]> order;
  /** Where in a packed row the processing time lies. */
  private transient int clock;

  private Deduplicate(DeduplicateSpec spec, StructType columns) {
    super(spec.name(), spec.updateBefore(), true);
    this.spec = spec;
    this.columns = columns;
  }

  static Dataset<Row> plan(Dataset<Row> input, DeduplicateSpec spec) {
    StructType keys = Packing.columns(input.schema(), spec.keys(), spec.name());
    StructType columns = Packing.columns(input.schema(), spec.columns(), spec.name());
    if (!spec.last() && spec.rowtime()) {
      throw new IllegalArgumentException(spec.name() + ": the first row by rowtime is known to a watermark only");
    }
    MapPartitionsFunction<Tuple2<byte[], byte[]>, Tuple2<byte[], byte[]>> choose =
        rows -> new LastRows(rows, order(spec, columns), (isThere, kind) -> {});
    Dataset<Tuple2<byte[], byte[]>> pairs = Packing.number(Packing.pack(input, keys, columns));
    KeyedProcessor operator =
        new Deduplicate(spec, columns).expiring(Expiry.after(spec.ttl())).timed(spec.clock());
    Dataset<Tuple2<byte[], byte[]>> chosen =
        spec.every() ? pairs : pairs.mapPartitions(choose, Packing.PAIRS);
    return Packing.unpack(operator.over(chosen), new StructType(), columns);
  }

  /** In which the row that is looked for is the greatest. */
  private static Comparator<byte[]> order(DeduplicateSpec spec, StructType columns) {
    if (!spec.last()) {
      return Header.BY_NUMBER.reversed();
    }
    return spec.rowtime() ? new ByTime(columns, spec.time()) : Header.BY_NUMBER;
  }

  @Override
  boolean isPaged() {
    return false;
  }

  @Override
  void open(Pages pages) {
    order = order(spec, columns);
    int fixed = UnsafeRow.calculateBitSetWidthInBytes(columns.size());
    clock = PackedRow.HEADER + fixed + Long.BYTES * columns.fieldIndex(spec.time());
  }

  @Override
  boolean process(byte[] key, ByteReader before, Iterator<byte[]> rows, ByteWriter after, Changes changes) {
    if (spec.every()) {
      return follow(before, rows, after, changes);
    }
    byte[] chosen = rows.next();
    while (rows.hasNext()) {
      byte[] row = rows.next();
      chosen = order.compare(row, chosen) > 0 ? row : chosen;
    }
    if (!spec.last()) {
      if (before == null) {
        changes.insert(Packing.NOTHING, chosen);
      } else {
        leave();
      }
      return true;
    }
    // What is in the state has the number 0: it came before.
    byte[] old = before == null ? null : PackedRow.withHeader(0, before.readRest());
    boolean isLate = old != null && order.compare(old, chosen) > 0;
    boolean stays = isLate || old != null && !expires() && equal(old, chosen);
    byte[] now = stays ? old : chosen;
    after.writeRaw(now, PackedRow.HEADER, now.length - PackedRow.HEADER);
    if (old == null) {
      changes.insert(Packing.NOTHING, now);
    } else if (!stays) {
      changes.update(Packing.NOTHING, old, now);
    }
    if (isLate) {
      leave();
    }
    return true;
  }

  /** Gives every row that is the last one by the time that it comes. */
  private boolean follow(ByteReader before, Iterator<byte[]> rows, ByteWriter after, Changes changes) {
    byte[] last = before == null ? null : PackedRow.withHeader(0, before.readRest());
    while (rows.hasNext()) {
      byte[] row = rows.next();
      if (last == null) {
        changes.insert(Packing.NOTHING, row.clone());
      } else if (order.compare(last, row) <= 0) {
        changes.update(Packing.NOTHING, last.clone(), row.clone());
      } else {
        continue;
      }
      last = row;
    }
    after.writeRaw(last, PackedRow.HEADER, last.length - PackedRow.HEADER);
    return true;
  }

  @Override
  StructType kept() {
    return spec.last() ? columns : new StructType();
  }

  @Override
  void show(ByteReader state, Consumer<byte[]> rows) {
    rows.accept(PackedRow.withHeader(0, state.readRest()));
  }

  /** Whether rows are equal but for the time at which they were processed. */
  private boolean equal(byte[] a, byte[] b) {
    int from = PackedRow.HEADER;
    if (!spec.rowtime()) {
      if (!Arrays.equals(a, from, clock, b, from, clock)) {
        return false;
      }
      from = clock + Long.BYTES;
    }
    return Arrays.equals(a, from, a.length, b, from, b.length);
  }
}
