package io.tidemill.state;

import java.util.List;
import java.util.function.Consumer;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Packed rows of two sides, next to each other: whether they match, and how they look to one who reads state. What their
 * headers hold does not matter.
 */
final class TwoSides {
  private final StructType left;
  private final StructType right;
  private final UnsafeRow leftRow;
  private final UnsafeRow rightRow;
  private final JoinedRow both;
  /** Null where every pair matches. */
  private final BasePredicate predicate;

  TwoSides(StructType left, StructType right, Expression condition) {
    this.left = left;
    this.right = right;
    leftRow = new UnsafeRow(left.size());
    rightRow = new UnsafeRow(right.size());
    both = new JoinedRow(leftRow, rightRow);
    predicate = condition == null ? null : Predicate$.MODULE$.create(condition);
    if (predicate != null) {
      predicate.initialize(0);
    }
  }

  /** The columns of two inputs, and what must hold over them beside equal keys; null if nothing. */
  record Columns(StructType left, StructType right, Expression condition) {
    static Columns of(
        Dataset<Row> left,
        Dataset<Row> right,
        Join.SideSpec ofLeft,
        Join.SideSpec ofRight,
        String condition,
        String name) {
      StructType leftColumns = Packing.columns(left.schema(), ofLeft.columns(), name);
      StructType rightColumns = Packing.columns(right.schema(), ofRight.columns(), name);
      Join.checkKeys(left.schema(), right.schema(), ofLeft, ofRight, name);
      Expression bound = condition == null ? null : Join.bound(left, leftColumns, rightColumns, condition);
      return new Columns(leftColumns, rightColumns, bound);
    }
  }

  boolean match(byte[] ofLeft, byte[] ofRight) {
    if (predicate == null) {
      return true;
    }
    PackedRow.point(leftRow, ofLeft);
    PackedRow.point(rightRow, ofRight);
    return predicate.eval(both);
  }

  /** A column of milliseconds; what is NULL is 0, as in Flink. */
  long time(byte[] row, boolean isRight, int column) {
    UnsafeRow at = PackedRow.point(isRight ? rightRow : leftRow, row);
    return at.isNullAt(column) ? 0 : Slice.milliseconds(at.getLong(column));
  }

  boolean hasTime(byte[] row, boolean isRight, int column) {
    return !PackedRow.point(isRight ? rightRow : leftRow, row).isNullAt(column);
  }

  /** The side that a row is of, then the columns of both sides, of which one has the row. */
  static StructType shown(StructType left, StructType right) {
    StructType shown = new StructType().add(Join.SIDE, DataTypes.StringType, false);
    for (StructType side : List.of(left, right)) {
      for (StructField field : side.fields()) {
        shown = shown.add(field.name(), field.dataType(), true);
      }
    }
    return shown;
  }

  void show(byte[] row, boolean isRight, Consumer<byte[]> rows) {
    StructType columns = isRight ? right : left;
    UnsafeRow at = PackedRow.point(isRight ? rightRow : leftRow, row);
    Object[] values = new Object[1 + left.size() + right.size()];
    values[0] = UTF8String.fromString(isRight ? "right" : "left");
    for (int i = 0; i < columns.size(); i++) {
      values[1 + i + (isRight ? left.size() : 0)] = at.get(i, columns.apply(i).dataType());
    }
    UnsafeProjection whole = UnsafeProjection.create(shown(left, right));
    rows.accept(PackedRow.packRow(whole.apply(new GenericInternalRow(values)), 0));
  }
}
