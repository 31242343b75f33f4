package io.tidemill.state;

import io.tidemill.Fault;
import io.tidemill.time.Alarm;
import java.io.Serializable;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.LongAccumulator;

/** What an operator tells the driver: what it met that should not be, under a name, and when it is to be woken. */
public final class Counts implements Serializable {
  static final String UNKNOWN_DELETE = "delete of an unknown row";
  static final String KNOWN_INSERT = "insert of a known row";
  static final String SEVERAL_PARTITIONS = "key in several partitions";
  static final String OVERFLOW = "sum that does not fit its type";
  static final String RANK_END = "row with another number of rows to keep than its partition's first";
  static final String NULL_KEY = "NULL in a joined column";
  static final String LATE = "late row";
  static final String NULL_TIME = "row without a rowtime";
  private static final String[] NAMES = {
    UNKNOWN_DELETE, KNOWN_INSERT, SEVERAL_PARTITIONS, OVERFLOW, RANK_END, NULL_KEY, LATE, NULL_TIME
  };

  private final Map<String, LongAccumulator> accumulators = new LinkedHashMap<>();

  private final Origins late = new Origins();
  private final Alarm alarm;

  private Counts(Alarm alarm) {
    this.alarm = alarm;
  }

  /** For an operator that waits for no clock. */
  public static Counts of(SparkSession session) {
    return of(session, null);
  }

  /** Made on the driver, one for each operator. {@code job}: whose alarm it may set; null where there is none. */
  public static Counts of(SparkSession session, String job) {
    SparkContext context = ((org.apache.spark.sql.classic.SparkSession) session).sparkContext();
    Counts counts = new Counts(job == null ? null : Alarm.of(job, context));
    for (String name : NAMES) {
      counts.accumulators.put(name, context.longAccumulator());
    }
    context.register(counts.late);
    return counts;
  }

  /** Has a batch run at this time of the machine, in milliseconds, at the latest. */
  void wakeAt(long time) {
    alarm.add(time);
  }

  void add(String name, long number) {
    accumulators.get(name).add(number);
  }

  /** {@code origin}: the topic and the partition of late rows, with a slash between, or empty. */
  void addLate(String origin, long number) {
    add(LATE, number);
    if (!origin.isEmpty()) {
      late.add(Map.of(origin, number));
    }
  }

  void addNullKey(long header) {
    if (Header.adds(header)) {
      add(NULL_KEY, 1);
    }
  }

  /** Called by generated code. */
  public boolean leaveOut(long header) {
    addNullKey(header);
    return false;
  }

  /** A condition that is never true and counts whom it is asked of: it stands after {@code OR}. */
  Column leavesOut(Column header) {
    Expression here = new Literal(this, new ObjectType(Counts.class));
    Expression asked = ExpressionUtils.expression(header);
    return ExpressionUtils.column(
        new Invoke(
            here, "leaveOut", DataTypes.BooleanType, PackedRow.seq(asked), PackedRow.seq(), false, false, false));
  }

  /** Called by generated code. */
  public boolean withoutTime(UTF8String refusing) {
    if (refusing == null) {
      add(NULL_TIME, 1);
      return false;
    }
    throw new Fault(
        Fault.NULL_ROWTIME,
        refusing + ": a row has no rowtime: RowTime field should not be null",
        "leave such rows out, WHERE … IS NOT NULL, or give them a time, COALESCE(…), in a view below the window");
  }

  /** A condition that is never true and counts the rows without a time that it is asked of; it stands after {@code OR}. */
  Column leavesOut() {
    return asked(null);
  }

  /** The same, which ends the job. */
  Column refuses(String operator) {
    return asked(operator);
  }

  private Column asked(String refusing) {
    Expression here = new Literal(this, new ObjectType(Counts.class));
    Expression told = new Literal(refusing == null ? null : UTF8String.fromString(refusing), DataTypes.StringType);
    return ExpressionUtils.column(
        new Invoke(
            here, "withoutTime", DataTypes.BooleanType, PackedRow.seq(told), PackedRow.seq(), false, false, false));
  }

  /** What has been counted, without what has not. */
  public Map<String, Long> values() {
    Map<String, Long> values = new LinkedHashMap<>();
    accumulators.forEach(
        (name, counted) -> {
          if (counted.sum() != 0) {
            values.put(name, counted.sum());
          }
        });
    late.value()
        .forEach(
            (origin, number) -> {
              int slash = origin.lastIndexOf('/');
              values.put(
                  LATE + " from partition " + origin.substring(slash + 1) + " of topic '" + origin.substring(0, slash)
                      + "'",
                  number);
            });
    return values;
  }
}
