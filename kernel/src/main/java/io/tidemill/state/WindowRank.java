package io.tidemill.state;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/**
 * Top-N of each window: of each partition the rows from {@code start} to {@code end} in an order, equal ones as they have
 * come. State: the rows up to the end, in their order. All rows cross the shuffle: who is late is known after it.
 */
final class WindowRank extends KeyedWindows {
  /** {@code number}: whether the place in the order is a column. */
  record WindowRankSpec(
      String name,
      List<String> partition,
      List<String> columns,
      List<SortKey.Column> order,
      long start,
      long end,
      boolean number,
      WindowSpec window,
      TimeSpec clock)
      implements Serializable {}

  private record Placed(byte[] place, byte[] row) {}

  private final WindowRankSpec spec;
  private final StructType columns;

  private transient SortKey order;
  private transient UnsafeRow row;
  private transient UnsafeRowWriter number;
  private transient ByteReader in;
  private transient ByteWriter out;

  private WindowRank(WindowRankSpec spec, StructType partition, StructType columns, Counts counts) {
    super(spec.name(), partition, spec.window(), counts);
    this.spec = spec;
    this.columns = columns;
  }

  static Dataset<Row> plan(Dataset<Row> input, WindowRankSpec spec, Counts counts) {
    StructType partition = Packing.columns(input.schema(), spec.partition(), spec.name());
    StructType columns = Packing.columns(input.schema(), spec.columns(), spec.name());
    SortKey.check(columns, spec.order(), spec.name());
    Dataset<Tuple2<byte[], byte[]>> pairs = Packing.number(Packing.pack(input, partition, columns));
    Dataset<Tuple2<byte[], byte[]>> ranked =
        new WindowRank(spec, partition, columns, counts).timed(spec.clock(), counts, columns).over(pairs);
    return spec.number()
        ? Packing.unpack(ranked, columns, new StructType().add(Rank.NUMBER, DataTypes.LongType, false))
        : Packing.unpack(ranked, new StructType(), columns);
  }

  @Override
  void open(boolean isAtWork) {
    super.open(isAtWork);
    order = new SortKey(columns, spec.order());
    row = new UnsafeRow(columns.size());
    number = new UnsafeRowWriter(1);
    in = new ByteReader();
    out = new ByteWriter(256);
  }

  /** The rows up to the end. */
  private List<Placed> first(byte[] known, Iterator<byte[]> rows) {
    List<Placed> all = new ArrayList<>();
    if (known != null) {
      in.over(known);
      checkVersion(in);
      while (in.hasMore()) {
        add(all, PackedRow.withHeader(0, in.readBytes()));
      }
    }
    rows.forEachRemaining(each -> add(all, each));
    all.sort(Comparator.comparing(Placed::place, Arrays::compareUnsigned));
    return all.size() > spec.end() ? all.subList(0, (int) spec.end()) : all;
  }

  private void add(List<Placed> all, byte[] packed) {
    all.add(new Placed(order.of(PackedRow.point(row, packed)), packed));
  }

  @Override
  byte[] keep(long end, byte[] key, byte[] known, Iterator<byte[]> rows) {
    List<Placed> first = first(known, rows);
    out.reset();
    out.writeByte(VERSION);
    for (Placed placed : first) {
      out.writeBytes(placed.row(), PackedRow.HEADER, placed.row().length - PackedRow.HEADER);
    }
    return out.toBytes();
  }

  @Override
  void close(long end, byte[] key, byte[] known, Iterator<byte[]> rows, Changes changes) {
    List<Placed> first = first(known, rows);
    for (int i = (int) spec.start() - 1; i < first.size(); i++) {
      if (spec.number()) {
        number.reset();
        number.write(0, i + 1L);
        changes.insert(first.get(i).row(), PackedRow.packRow(number.getRow(), 0));
      } else {
        changes.insert(Packing.NOTHING, first.get(i).row());
      }
    }
  }
}
