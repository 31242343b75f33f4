package io.tidemill.state;

import java.io.Serializable;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.function.Consumer;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/**
 * Completes an upsert stream: remembers the last row of each key, so that an update brings the row before and a delete
 * the row that goes. Equal rows are suppressed unless state is forgotten some time, deletes of unknown keys swallowed.
 *
 * <p>"Last" is Kafka's order: rows are numbered by partition and offset, where the input tells them.
 */
final class Normalize extends KeyedProcessor {
  /**
   * What the planner asks. {@code origin} and {@code order} are columns: the partition that a row comes from and its
   * place there; without them rows are numbered as they come. {@code filtered}: rows are missing that the table has, so
   * that nobody knows which deletes are of unknown rows. {@code every}: each change is told, and not just what a batch
   * comes to; and a delete as it came, with the time that it has, and not as the row that it takes away.
   */
  record NormalizeSpec(
      String name,
      List<String> keys,
      List<String> columns,
      String origin,
      String order,
      boolean filtered,
      boolean every,
      boolean updateBefore,
      List<Long> ttl,
      TimeSpec clock)
      implements Serializable {}

  // Of a number: the upper 16 bits are the origin, the lower 45 the offset.
  private static final int ORIGIN_SHIFT = 45;
  private static final int ORIGINS = 0xFFFF;

  private final NormalizeSpec spec;
  private final StructType columns;
  private final Counts counts;

  private Normalize(NormalizeSpec spec, StructType columns, Counts counts) {
    super(spec.name(), spec.updateBefore(), true);
    this.spec = spec;
    this.columns = columns;
    this.counts = counts;
  }

  static Dataset<Row> plan(Dataset<Row> input, NormalizeSpec spec, Counts counts) {
    StructType keys = Packing.columns(input.schema(), spec.keys(), spec.name());
    StructType columns = Packing.columns(input.schema(), spec.columns(), spec.name());
    Dataset<Tuple2<byte[], byte[]>> pairs;
    if (spec.order() == null) {
      pairs = Packing.number(Packing.pack(input, keys, columns));
    } else {
      Column origin = input.col(spec.origin()).cast("bigint").bitwiseAND(ORIGINS);
      Column number = functions.shiftleft(origin, ORIGIN_SHIFT).bitwiseOR(input.col(spec.order()));
      Column header = functions.shiftleft(number, Header.NUMBER_SHIFT).bitwiseOR(Packing.kind(input));
      pairs = Packing.pack(input, keys, columns, header);
    }
    Normalize operator = new Normalize(spec, columns, counts);
    operator.expiring(Expiry.after(spec.ttl())).timed(spec.clock());
    MapPartitionsFunction<Tuple2<byte[], byte[]>, Tuple2<byte[], byte[]>> last =
        rows -> new LastRows(rows, Header.BY_NUMBER, operator::look);
    StructType none = new StructType();
    Dataset<Tuple2<byte[], byte[]>> chosen = spec.every() ? pairs : pairs.mapPartitions(last, Packing.PAIRS);
    return Packing.unpack(operator.over(chosen), none, columns);
  }

  @Override
  boolean isPaged() {
    return false;
  }

  @Override
  void open(Pages pages) {}

  // State: the origin of the last row, then its bytes.
  @Override
  boolean process(byte[] key, ByteReader before, Iterator<byte[]> rows, ByteWriter after, Changes changes) {
    byte[] old = null;
    long origin = -1;
    if (before != null) {
      origin = before.readVarint();
      old = before.readRest();
    }
    boolean moved = false;
    boolean isThere = old != null;
    byte[] last = null;
    while (rows.hasNext()) {
      last = rows.next();
      long header = PackedRow.header(last);
      look(isThere, Header.kind(header));
      isThere = Header.endsAdded(header);
      moved |= origin >= 0 && origin(last) != origin;
      origin = origin(last);
      if (spec.every() && rows.hasNext()) {
        old = step(old, last, isThere, changes);
      }
    }
    if (moved && spec.order() != null) {
      counts.add(Counts.SEVERAL_PARTITIONS, 1);
    }
    step(old, last, isThere, changes);
    if (!isThere) {
      return false;
    }
    after.writeVarint(origin);
    after.writeRaw(last, PackedRow.HEADER, last.length - PackedRow.HEADER);
    return true;
  }

  /** Tells how a key's row becomes another one; the body of that, or null if there is none. */
  private byte[] step(byte[] old, byte[] row, boolean isThere, Changes changes) {
    if (!isThere) {
      if (old != null) {
        changes.delete(Packing.NOTHING, spec.every() ? row : PackedRow.withHeader(0, old));
      }
      return null;
    }
    if (old == null) {
      changes.insert(Packing.NOTHING, row);
    } else if (expires() || !equal(old, row)) {
      changes.update(Packing.NOTHING, PackedRow.withHeader(0, old), row);
    }
    return spec.every() ? PackedRow.body(row) : null;
  }

  /** Counts a row whose key is there, or is not, where it should not be so. */
  private void look(boolean isThere, int kind) {
    if (isThere && kind == Header.INSERT) {
      counts.add(Counts.KNOWN_INSERT, 1);
    } else if (!isThere && kind == Header.DELETE && !spec.filtered()) {
      counts.add(Counts.UNKNOWN_DELETE, 1);
    }
  }

  @Override
  StructType kept() {
    return columns;
  }

  @Override
  void show(ByteReader state, Consumer<byte[]> rows) {
    state.readVarint();
    rows.accept(PackedRow.withHeader(0, state.readRest()));
  }

  private static boolean equal(byte[] body, byte[] row) {
    return Arrays.equals(body, 0, body.length, row, PackedRow.HEADER, row.length);
  }

  private long origin(byte[] row) {
    return spec.order() == null ? 0 : Header.number(PackedRow.header(row)) >>> ORIGIN_SHIFT;
  }
}
