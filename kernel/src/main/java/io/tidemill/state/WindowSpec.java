package io.tidemill.state;

import java.io.Serializable;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;

/**
 * Windows over the time of the wall clock, in milliseconds as if it were UTC: of equal size, or sessions.
 *
 * @param time the column of the rows' time, or, where they know their window, of its end
 * @param attached whether they do
 * @param size how long a window is; of windows that grow, how long they are in the end
 * @param step from the begin of a window to that of the next, or by how much it grows
 * @param offset where the first one begins
 * @param cumulative whether windows grow
 * @param gap how long nothing comes before a session ends; 0 where windows are of equal size
 * @param rowtime whether the watermark closes them, and not the clock of the machine
 * @param zone where the wall clock hangs; null where rows tell its time
 */
public record WindowSpec(
    String time,
    boolean attached,
    long size,
    long step,
    long offset,
    boolean cumulative,
    long gap,
    boolean rowtime,
    String zone)
    implements Serializable {
  private static final long HOUR = 3_600_000;

  /** Whether a row is in one window only. */
  boolean isTumbling() {
    return attached || size == step;
  }

  /** The end of the slice that each row is in, in milliseconds; the row's own time where windows are sessions. */
  Column slice(Dataset<Row> input) {
    if (attached) {
      return ExpressionUtils.column(invoke("milliseconds", at(input)));
    }
    return gap > 0 ? ExpressionUtils.column(invoke("milliseconds", wall(input))) : boundary(input, offset);
  }

  /** The first boundary after a row's time, of those that are a step apart. */
  private Column boundary(Dataset<Row> input, long from) {
    return ExpressionUtils.column(invoke("end", wall(input), literal(step), literal(from)));
  }

  private Expression at(Dataset<Row> input) {
    return ExpressionUtils.expression(input.col(time));
  }

  private Expression wall(Dataset<Row> input) {
    return zone == null ? at(input) : invoke("wall", at(input), new Literal(place(), DataTypes.StringType));
  }

  private UTF8String place() {
    return UTF8String.fromString(zone);
  }

  /** What the wall clock shows at a time in microseconds, in milliseconds. */
  long wallTime(long micros) {
    return Slice.milliseconds(zone == null ? micros : Slice.wall(micros, place()));
  }

  /**
   * Each row once for every window that it is in.
   *
   * @param noTime what becomes of a row without a time: it counts, or fails
   */
  Dataset<Row> assign(Dataset<Row> all, Column noTime) {
    Dataset<Row> input = all.where(all.col(time).isNotNull().or(noTime));
    Dataset<Row> rows;
    if (isTumbling()) {
      rows = input.withColumn("_end", slice(input));
    } else {
      // A window may end elsewhere than where one begins, and windows may have time between them.
      Column first = boundary(input, offset + size);
      Column last = ExpressionUtils.column(invoke("last", ExpressionUtils.expression(slice(input)), geometry()));
      rows =
          input
              .where(first.leq(last))
              .withColumn("_end", functions.explode(functions.sequence(first, last, functions.lit(step))));
    }
    Expression end = ExpressionUtils.expression(rows.col("_end"));
    DataType rowtime = zone == null ? DataTypes.TimestampNTZType : DataTypes.TimestampType;
    return rows
        .withColumn("_start", micros(DataTypes.TimestampNTZType, invoke("start", end, geometry())))
        .withColumn("_time", micros(rowtime, invoke("time", end, geometry())))
        .withColumn("_end", micros(DataTypes.TimestampNTZType, end));
  }

  /** This, as an argument of generated code. */
  private Expression geometry() {
    return new Literal(this, new ObjectType(WindowSpec.class));
  }

  private static Column micros(DataType type, Expression milliseconds) {
    return ExpressionUtils.column(invoke("micros", type, milliseconds));
  }

  private static Expression literal(long value) {
    return new Literal(value, DataTypes.LongType);
  }

  private static Expression invoke(String method, Expression... arguments) {
    return invoke(method, DataTypes.LongType, arguments);
  }

  private static Expression invoke(String method, DataType type, Expression... arguments) {
    return new StaticInvoke(
        Slice.class, type, method, PackedRow.seq(arguments), PackedRow.seq(), true, true, true, Option.empty());
  }

  long start(long end) {
    return cumulative ? end - 1 - Math.floorMod(end - 1 - offset, size) : end - size;
  }

  /** The end of the last window that a slice is in. */
  long last(long slice) {
    if (attached) {
      return slice;
    }
    return cumulative ? start(slice) + size : slice - step + size;
  }

  /** The first of the slices that a window consists of. */
  long firstSlice(long end) {
    return start(end) + step;
  }

  /** The watermark that closes the window with this end. */
  long trigger(long end) {
    return zone == null ? end - 1 : WallClock.in(place()).last(end - 1);
  }

  /** The last millisecond of the window with this end, as a point in time: where there are two, the first. */
  long time(long end) {
    return zone == null ? end - 1 : WallClock.in(place()).first(end - 1);
  }

  /** A time of the timeline before which no window is open when the watermark has come so far. */
  long openFrom(long watermark) {
    if (watermark == Long.MIN_VALUE || watermark == Long.MAX_VALUE) {
      return watermark;
    }
    return wall(watermark) - size;
  }

  private long wall(long instant) {
    if (zone == null) {
      return instant;
    }
    // The clock may have been put back since.
    return instant + WallClock.in(place()).offset(instant) - 2 * HOUR;
  }
}
