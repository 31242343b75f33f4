package io.tidemill.state;

import java.io.Serializable;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/**
 * The first or the last row of each key and window, by a rowtime: of equal times the one that came first, or last.
 * State: that row. All rows cross the shuffle: who is late is known after it.
 */
final class WindowDeduplicate extends KeyedWindows {
  record WindowDeduplicateSpec(
      String name,
      List<String> keys,
      List<String> columns,
      String time,
      boolean last,
      WindowSpec window,
      TimeSpec clock)
      implements Serializable {
    /** In which the row that is looked for is the greatest. */
    Comparator<byte[]> order(StructType columns) {
      Comparator<byte[]> byTime = new Deduplicate.ByTime(columns, time);
      return last ? byTime : byTime.reversed();
    }
  }

  private final WindowDeduplicateSpec spec;
  private final StructType columns;

  private transient Comparator<byte[]> order;
  private transient ByteReader in;
  private transient ByteWriter out;

  private WindowDeduplicate(WindowDeduplicateSpec spec, StructType keys, StructType columns, Counts counts) {
    super(spec.name(), keys, spec.window(), counts);
    this.spec = spec;
    this.columns = columns;
  }

  static Dataset<Row> plan(Dataset<Row> input, WindowDeduplicateSpec spec, Counts counts) {
    StructType keys = Packing.columns(input.schema(), spec.keys(), spec.name());
    StructType columns = Packing.columns(input.schema(), spec.columns(), spec.name());
    Dataset<Tuple2<byte[], byte[]>> pairs = Packing.number(Packing.pack(input, keys, columns));
    KeyedProcessor operator = new WindowDeduplicate(spec, keys, columns, counts).timed(spec.clock(), counts, columns);
    return Packing.unpack(operator.over(pairs), new StructType(), columns);
  }

  @Override
  void open(boolean isAtWork) {
    super.open(isAtWork);
    order = spec.order(columns);
    in = new ByteReader();
    out = new ByteWriter(256);
  }

  private byte[] chosen(byte[] known, Iterator<byte[]> rows) {
    byte[] chosen = null;
    if (known != null) {
      in.over(known);
      checkVersion(in);
      // Its number is 0, as that of the first row of a batch may be: it came before.
      chosen = PackedRow.withHeader(0, in.readRest());
    }
    while (rows.hasNext()) {
      byte[] row = rows.next();
      int after = chosen == null ? 1 : order.compare(row, chosen);
      chosen = after > 0 || after == 0 && spec.last() ? row : chosen;
    }
    return chosen;
  }

  @Override
  byte[] keep(long end, byte[] key, byte[] known, Iterator<byte[]> rows) {
    byte[] chosen = chosen(known, rows);
    out.reset();
    out.writeByte(VERSION);
    out.writeRaw(chosen, PackedRow.HEADER, chosen.length - PackedRow.HEADER);
    return out.toBytes();
  }

  @Override
  void close(long end, byte[] key, byte[] known, Iterator<byte[]> rows, Changes changes) {
    changes.insert(Packing.NOTHING, chosen(known, rows));
  }
}
