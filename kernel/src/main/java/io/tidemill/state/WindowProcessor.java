package io.tidemill.state;

import io.tidemill.time.Mark;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.function.Function;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/**
 * What operators have in common whose windows close: by the watermark, or by the clock of the machine.
 *
 * <p>Law, which is Flink's: a window is closed once the watermark has reached its last millisecond. What comes for a
 * window that was closed when the batch began is late.
 */
abstract class WindowProcessor extends KeyedProcessor {
  /** The first byte of what is kept in timelines. */
  static final int VERSION = 1;
  /** How many columns tell the window: its start, its end, its time. */
  static final int BOUNDS = 3;

  final WindowSpec window;
  final Counts counts;
  private transient boolean untouched;

  WindowProcessor(String name, boolean ordered, WindowSpec window, Counts counts) {
    super(name, false, ordered);
    this.window = window;
    this.counts = counts;
  }

  /** The columns that tell the window, then others. */
  static StructType bounds(WindowSpec window, List<StructField> others) {
    DataType rowtime = window.zone() == null ? DataTypes.TimestampNTZType : DataTypes.TimestampType;
    List<StructField> fields = new ArrayList<>();
    fields.add(DataTypes.createStructField("_start", DataTypes.TimestampNTZType, false));
    fields.add(DataTypes.createStructField("_end", DataTypes.TimestampNTZType, false));
    fields.add(DataTypes.createStructField("_time", rowtime, false));
    fields.addAll(others);
    return DataTypes.createStructType(fields);
  }

  @Override
  final boolean hasTimeline() {
    return true;
  }

  @Override
  final boolean isPaged() {
    return false;
  }

  @Override
  final void open(Pages none) {
    boolean isAtWork = timeline() != null;
    untouched = isAtWork && timeline().isEmpty();
    open(isAtWork);
  }

  /** Sets up what one task needs; only at work there are timelines. */
  abstract void open(boolean isAtWork);

  /** What a timeline has for a key, or null. Nothing is looked for where nothing waits. */
  final byte[] known(Timeline line, long time, byte[] key) {
    return untouched ? null : line.get(time, key);
  }

  final boolean isClosed(long end, long at) {
    return at == Mark.END || window.trigger(end) <= at;
  }

  /** Windows that were closed then were so before this batch. */
  final long before() {
    return window.rowtime() ? moment().before() : Mark.NONE;
  }

  final long now() {
    if (window.rowtime()) {
      return moment().now();
    }
    return moment().now() == Mark.END ? Mark.END : clock();
  }

  /** {@code end}: of the next window that is to close. */
  final void waitFor(long end) {
    if (!window.rowtime()) {
      counts.wakeAt(window.trigger(end));
    }
  }

  final void checkVersion(ByteReader in) {
    checkVersion(in.readByte(), VERSION);
  }

  /** What an aggregate is made of; where rows may become letters, that is all of their columns. */
  static StructType arguments(AggregateSpec spec, StructType schema) {
    StructType needed = Aggregation.arguments(spec, schema);
    if (!TimeSpec.hasLetters(spec.clock())) {
      return needed;
    }
    List<String> all =
        Arrays.stream(schema.fieldNames())
            .filter(name -> !name.equals(Packing.KIND) && !name.equals(LateRows.PLACE))
            .toList();
    return Packing.columns(schema, all, spec.name());
  }

  /** The time of a late row; where rows know their window, the last one of that. */
  final long eventTime(byte[] row, StructType columns) {
    UnsafeRow at = PackedRow.point(new UnsafeRow(columns.size()), row);
    long time = Slice.milliseconds(at.getLong(columns.fieldIndex(window.time())));
    return window.attached() ? window.time(time) : time;
  }

  /** Rows with their time's slice beside their kind; one without a time ends the job. */
  static Dataset<Tuple2<byte[], byte[]>> sliced(
      Dataset<Row> input, AggregateSpec spec, StructType keys, StructType arguments, Counts counts) {
    Column slice = spec.window().slice(input);
    Dataset<Row> timed = input.where(slice.isNotNull().or(counts.refuses(spec.name())));
    return Packing.pack(timed, keys, arguments, Slice.header(slice, Packing.kind(input)));
  }

  /** What comes of the entries at the front of the timeline whose time is the end of a window that is closed now. */
  final Iterator<Tuple2<byte[], byte[]>> due(Function<Timeline.Entry, Iterator<Tuple2<byte[], byte[]>>> close) {
    if (now() == Mark.NONE) {
      return Collections.emptyIterator();
    }
    return new Due(
        timeline().entries(window.openFrom(before()), Mark.END),
        end -> isClosed(end, now()),
        close,
        next -> {
          if (next != null) {
            waitFor(next.time());
          }
        });
  }
}
