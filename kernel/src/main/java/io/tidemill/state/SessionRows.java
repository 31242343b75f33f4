package io.tidemill.state;

import java.io.Serializable;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/** The rows of sessions, each with its session, as they have come; they wait until their session closes. */
final class SessionRows extends Sessions {
  record SessionSpec(String name, List<String> keys, List<String> columns, WindowSpec window, TimeSpec clock)
      implements Serializable {}

  private final StructType columns;
  private final int timeColumn;

  private transient UnsafeRow row;
  private transient UnsafeRowWriter bounds;
  private transient Kept kept;

  private SessionRows(SessionSpec spec, StructType columns, Counts counts) {
    super(spec.name(), spec.window(), counts);
    this.columns = columns;
    this.timeColumn = columns.fieldIndex(spec.window().time());
  }

  static Dataset<Row> plan(Dataset<Row> input, SessionSpec spec, Counts counts) {
    StructType keys = Packing.columns(input.schema(), spec.keys(), spec.name());
    StructType columns = Packing.columns(input.schema(), spec.columns(), spec.name());
    Column time = input.col(spec.window().time());
    Dataset<Row> timed = input.where(time.isNotNull().or(counts.leavesOut()));
    Dataset<Tuple2<byte[], byte[]>> rows = Packing.number(Packing.pack(timed, keys, columns));
    KeyedProcessor operator = new SessionRows(spec, columns, counts).timed(spec.clock(), counts, columns);
    return Packing.unpack(operator.over(rows), bounds(spec.window(), List.of()), columns);
  }

  @Override
  void open(boolean isAtWork) {
    super.open(isAtWork);
    row = new UnsafeRow(columns.size());
    bounds = new UnsafeRowWriter(BOUNDS);
    kept = isAtWork ? new Kept(new Segments(newTimeline("session_rows"))) : null;
  }

  @Override
  long eventTime(byte[] row) {
    return eventTime(row, columns);
  }

  @Override
  long time(byte[] packed) {
    return window.wallTime(PackedRow.point(row, packed).getLong(timeColumn));
  }

  @Override
  byte[] keep(byte[] key, Session session) {
    return kept.keep(key, session, this);
  }

  @Override
  void close(byte[] key, Session session, Changes changes) {
    bounds.reset();
    bounds.write(0, 1000 * session.start);
    bounds.write(1, 1000 * session.end);
    bounds.write(2, 1000 * window.time(session.end));
    byte[] told = PackedRow.packRow(bounds.getRow(), 0);
    for (byte[] each : kept.take(key, session)) {
      changes.add(Header.kind(PackedRow.header(each)), told, each);
    }
  }
}
