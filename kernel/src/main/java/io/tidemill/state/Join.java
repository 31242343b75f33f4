package io.tidemill.state;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.function.Consumer;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.BindReferences$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.package$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Tuple2;

/**
 * A regular join: the rows of both sides are kept by their join key, and either side may change. Both come as one
 * stream, in which a bit of the header tells the sides apart.
 *
 * <p>First the left side's changes meet what the right side was, then the right side's changes meet what the left side
 * has become; the sum is the change of the joined table. Where a row is given by itself because it has a match or has
 * none, what counts is how many rows of the other side match: all of them, unless there is a condition beside the keys;
 * then each row keeps that number in its entry's mark.
 *
 * <p>A row whose key holds a NULL never matches. It is counted and not kept: it goes on as it came, or is dropped.
 */
final class Join extends KeyedProcessor {
  record SideSpec(List<String> columns, List<String> keys, List<String> unique) implements Serializable {}

  record JoinSpec(
      String name,
      String kind,
      SideSpec left,
      SideSpec right,
      List<Boolean> nullSafe,
      String condition,
      List<String> updateKey,
      boolean updateBefore,
      boolean updates,
      boolean deletes,
      List<Long> ttl,
      TimeSpec clock)
      implements Serializable {
    boolean isHalf() {
      return kind.equals("SEMI") || kind.equals("ANTI");
    }

    boolean keepsLeft() {
      return Join.keepsLeft(kind);
    }

    boolean keepsRight() {
      return Join.keepsRight(kind);
    }
  }

  /** Whether a join gives rows of its left side without a match. */
  static boolean keepsLeft(String kind) {
    return kind.equals("LEFT") || kind.equals("FULL") || kind.equals("ANTI");
  }

  static boolean keepsRight(String kind) {
    return kind.equals("RIGHT") || kind.equals("FULL");
  }

  /** The column that says of which side a row of state is. */
  static final String SIDE = "_side";

  private final JoinSpec spec;
  private final StructType leftColumns;
  private final StructType rightColumns;
  private final boolean hasKeys;
  /** What must hold beside the keys, over the columns of both sides; null if nothing. */
  private final Expression condition;
  private final Counts counts;

  private transient JoinSide left;
  private transient JoinSide right;
  private transient JoinedRows joined;
  private transient BasePredicate predicate;
  private transient UnsafeRow leftRow;
  private transient UnsafeRow rightRow;
  private transient JoinedRow bothRows;

  private Join(JoinSpec spec, StructType left, StructType right, Expression condition, Counts counts) {
    super(spec.name(), spec.updateBefore(), false);
    this.spec = spec;
    this.leftColumns = left;
    this.rightColumns = right;
    this.hasKeys = !spec.left().keys().isEmpty();
    this.condition = condition;
    this.counts = counts;
  }

  static Dataset<Row> plan(Dataset<Row> left, Dataset<Row> right, JoinSpec spec, Counts counts) {
    TwoSides.Columns columns =
        TwoSides.Columns.of(left, right, spec.left(), spec.right(), spec.condition(), spec.name());
    StructType leftColumns = columns.left();
    StructType rightColumns = columns.right();
    KeyedProcessor operator =
        new Join(spec, leftColumns, rightColumns, columns.condition(), counts).expiring(Expiry.after(spec.ttl())).timed(spec.clock());
    Dataset<Tuple2<byte[], byte[]>> pairs =
        packed(left, spec.left(), leftColumns, spec, spec.keepsLeft(), 0, counts)
            .union(packed(right, spec.right(), rightColumns, spec, spec.keepsRight(), Header.RIGHT, counts));
    Dataset<Tuple2<byte[], byte[]>> result = operator.over(pairs);
    if (spec.isHalf()) {
      return Packing.unpack(result, new StructType(), leftColumns);
    }
    boolean leftMayMiss = spec.keepsRight();
    boolean rightMayMiss = spec.keepsLeft();
    return Packing.unpack(result, leftColumns, leftMayMiss, rightColumns, rightMayMiss);
  }

  static void checkKeys(StructType left, StructType right, SideSpec leftSide, SideSpec rightSide, String name) {
    for (int i = 0; i < leftSide.keys().size(); i++) {
      StructField a = left.apply(leftSide.keys().get(i));
      StructField b = right.apply(rightSide.keys().get(i));
      if (!a.dataType().catalogString().equals(b.dataType().catalogString())) {
        throw new IllegalArgumentException(
            name + ": keys of different types: " + a.dataType().sql() + " and " + b.dataType().sql());
      }
    }
  }

  private static Dataset<Tuple2<byte[], byte[]>> packed(
      Dataset<Row> input,
      SideSpec side,
      StructType columns,
      JoinSpec spec,
      boolean kept,
      long bit,
      Counts counts) {
    Dataset<Tuple2<byte[], byte[]>> pairs =
        packed(input, side, columns, spec.name(), spec.nullSafe(), kept, bit, counts);
    return side.unique() == null ? pairs : Packing.number(pairs);
  }

  /** A side's rows by their keys. {@code kept}: whether a row whose key holds a NULL is given all the same. */
  static Dataset<Tuple2<byte[], byte[]>> packed(
      Dataset<Row> input,
      SideSpec side,
      StructType columns,
      String name,
      List<Boolean> nullSafe,
      boolean kept,
      long bit,
      Counts counts) {
    StructType keys = Packing.columns(input.schema(), side.keys(), name);
    Column never = neverMatches(input, keys, nullSafe);
    Dataset<Row> rows = input;
    if (never != null && !kept) {
      rows = input.where(functions.not(never).or(counts.leavesOut(Packing.kind(input))));
    }
    Column key = Packing.key(rows, keys);
    if (never != null && kept) {
      // Nobody waits for these rows: they are spread, so that they are no burden to one task.
      StructType by = side.unique() == null ? columns : Packing.columns(columns, side.unique(), name);
      Expression spread = PackedRow.spread(ExpressionUtils.expression(Packing.key(rows, by)));
      key = functions.when(never, ExpressionUtils.column(spread)).otherwise(key);
    }
    return Packing.pack(rows, key, columns, Packing.kind(rows).bitwiseOR(bit));
  }

  /** Whether a row's key holds a NULL where NULL is equal to nothing; null where none may. */
  static Column neverMatches(Dataset<Row> input, StructType keys, List<Boolean> nullSafe) {
    Column never = null;
    for (int i = 0; i < keys.size(); i++) {
      if (keys.apply(i).nullable() && !nullSafe.get(i)) {
        Column isNull = input.col(keys.apply(i).name()).isNull();
        never = never == null ? isNull : never.or(isNull);
      }
    }
    return never;
  }

  /** A condition as Spark understands it, over the columns of the left side, then those of the right. */
  static Expression bound(Dataset<Row> input, StructType left, StructType right, String sql) {
    StructType both = new StructType();
    for (StructType side : List.of(left, right)) {
      for (StructField field : side.fields()) {
        both = both.add(field.name(), field.dataType(), true);
      }
    }
    org.apache.spark.sql.classic.SparkSession session =
        (org.apache.spark.sql.classic.SparkSession) input.sparkSession();
    // Rows that are not known to be none, or the optimizer would know the answer.
    JavaSparkContext context = JavaSparkContext.fromSparkContext(session.sparkContext());
    org.apache.spark.sql.classic.Dataset<Row> asked =
        (org.apache.spark.sql.classic.Dataset<Row>)
            session.createDataFrame(context.<Row>emptyRDD(), both).select(functions.expr(sql).as("_holds"));
    LogicalPlan plan = asked.queryExecution().optimizedPlan();
    Expression found = (Expression) ((Project) plan).projectList().head();
    Expression condition = found instanceof Alias alias ? alias.child() : found;
    LogicalPlan rows = plan.collectLeaves().head();
    return BindReferences$.MODULE$.bindReference(
        condition, package$.MODULE$.AttributeSeq(rows.output()), false);
  }

  @Override
  boolean isPaged() {
    return true;
  }

  @Override
  void open(Pages pages) {
    boolean onceLeft = spec.kind().equals("SEMI");
    left = new JoinSide(new Bag(0, pages), told(spec.left(), leftColumns), onceLeft, spec.keepsLeft(), counts);
    right = new JoinSide(new Bag(1, pages), told(spec.right(), rightColumns), false, spec.keepsRight(), counts);
    Part leftKey = updateKey(spec.left(), leftColumns);
    Part rightKey = spec.isHalf() ? null : updateKey(spec.right(), rightColumns);
    boolean keyed = spec.updateKey() != null;
    joined = new JoinedRows(spec.isHalf(), spec.updates(), spec.deletes(), keyed, leftKey, rightKey);
    if (condition != null) {
      predicate = Predicate$.MODULE$.create(condition);
      predicate.initialize(0);
      leftRow = new UnsafeRow(leftColumns.size());
      rightRow = new UnsafeRow(rightColumns.size());
      bothRows = new JoinedRow(leftRow, rightRow);
    }
  }

  /** What tells the rows of one join key apart. */
  private static Part told(SideSpec side, StructType columns) {
    return side.unique() == null ? null : without(side.unique(), side, columns);
  }

  private Part updateKey(SideSpec side, StructType columns) {
    List<String> key = spec.updateKey();
    return key == null || side.columns().stream().noneMatch(key::contains) ? null : without(key, side, columns);
  }

  private static Part without(List<String> wanted, SideSpec side, StructType columns) {
    List<String> picked = new ArrayList<>(wanted);
    picked.removeAll(side.keys());
    return new Part(columns, picked);
  }

  @Override
  boolean process(byte[] key, ByteReader before, Iterator<byte[]> rows, ByteWriter after, Changes changes) {
    left.rows.clear();
    right.rows.clear();
    while (rows.hasNext()) {
      byte[] row = rows.next();
      (Header.isRight(PackedRow.header(row)) ? right : left).rows.add(row);
    }
    if (hasKeys && key.length == PackedRow.HEADER) {
      handOn(left, changes);
      handOn(right, changes);
      joined.leave(changes);
      return false;
    }
    if (before == null) {
      left.bag.clear();
      right.bag.clear();
    } else {
      left.bag.read(before);
      right.bag.read(before);
    }
    advance(left, right);
    advance(right, left);
    joined.leave(changes);
    if (left.isEmpty() && right.isEmpty()) {
      left.bag.drop();
      right.bag.drop();
      return false;
    }
    left.bag.write(after);
    right.bag.write(after);
    return true;
  }

  /** The side that a row is of, then the columns of both sides, of which one has the row. */
  @Override
  StructType kept() {
    return TwoSides.shown(leftColumns, rightColumns);
  }

  @Override
  void show(ByteReader state, Consumer<byte[]> rows) {
    left.bag.read(state);
    right.bag.read(state);
    UnsafeProjection whole = UnsafeProjection.create(kept());
    show(left, "left", leftColumns, 1, whole, rows);
    show(right, "right", rightColumns, 1 + leftColumns.size(), whole, rows);
  }

  private void show(
      JoinSide side, String name, StructType columns, int from, UnsafeProjection whole, Consumer<byte[]> rows) {
    UnsafeRow row = new UnsafeRow(columns.size());
    Object[] values = new Object[1 + leftColumns.size() + rightColumns.size()];
    values[0] = UTF8String.fromString(name);
    for (Bag.Cursor entries = side.bag.all(); entries.hasNext(); ) {
      Bag.Entry entry = entries.next();
      byte[] body = side.row(entry);
      row.pointTo(body, body.length);
      for (int i = 0; i < columns.size(); i++) {
        values[from + i] = row.get(i, columns.apply(i).dataType());
      }
      byte[] packed = PackedRow.packRow(whole.apply(new GenericInternalRow(values)), 0);
      for (long n = 0; n < entry.count; n++) {
        rows.accept(packed);
      }
    }
  }

  /** Rows that never match. */
  private void handOn(JoinSide side, Changes changes) {
    side.rows.forEach(row -> counts.addNullKey(PackedRow.header(row)));
    if (!side.isUnique()) {
      side.sums((row, diff) -> give(side, row, diff));
      return;
    }
    side.rows.sort(Header.BY_NUMBER);
    for (byte[] row : side.rows) {
      int kind = Header.kind(PackedRow.header(row));
      byte[] none = new byte[PackedRow.HEADER];
      if (spec.isHalf()) {
        changes.add(kind, Packing.NOTHING, row);
      } else if (side == left) {
        changes.add(kind, row, none);
      } else {
        changes.add(kind, none, row);
      }
    }
  }

  private void advance(JoinSide side, JoinSide other) {
    side.settle();
    if (side.changes.isEmpty()) {
      return;
    }
    if (predicate == null) {
      meetAll(side, other);
    } else {
      meetSome(side, other);
    }
  }

  /** Every row matches. */
  private void meetAll(JoinSide side, JoinSide other) {
    boolean matched = !other.isEmpty();
    boolean turned = other.isGiven() && side.hasTurned();
    if (matched && (turned || !spec.isHalf())) {
      for (Bag.Cursor entries = other.bag.all(); entries.hasNext(); ) {
        Bag.Entry entry = entries.next();
        byte[] row = other.row(entry);
        if (!spec.isHalf()) {
          for (JoinSide.Change change : side.changes) {
            give(side, change.row, row, change.diff * entry.count);
          }
        }
        if (turned) {
          turn(other, row, entry.count, !side.isEmpty());
        }
      }
    }
    if (matched ? side.givenMatched : side.givenUnmatched) {
      for (JoinSide.Change change : side.changes) {
        give(side, change.row, change.diff);
      }
    }
  }

  private void meetSome(JoinSide side, JoinSide other) {
    for (Bag.Cursor entries = other.bag.all(); entries.hasNext(); ) {
      Bag.Entry entry = entries.next();
      byte[] row = other.row(entry);
      long more = 0;
      for (JoinSide.Change change : side.changes) {
        if (!(side == left ? matches(change.row, row) : matches(row, change.row))) {
          continue;
        }
        more += change.diff;
        if (change.fresh != null) {
          change.matches += entry.count;
        }
        if (!spec.isHalf()) {
          give(side, change.row, row, change.diff * entry.count);
        }
      }
      if (more != 0 && other.isGiven()) {
        boolean matched = entry.mark != 0;
        entry.mark += more;
        entries.changed();
        if (matched != (entry.mark != 0)) {
          turn(other, row, entry.count, !matched);
        }
      }
    }
    if (!side.isGiven()) {
      return;
    }
    for (JoinSide.Change change : side.changes) {
      if (change.fresh != null) {
        change.fresh.mark = change.matches;
      }
      if (change.matches != 0 ? side.givenMatched : side.givenUnmatched) {
        give(side, change.row, change.diff);
      }
    }
  }

  private boolean matches(byte[] leftBody, byte[] rightBody) {
    leftRow.pointTo(leftBody, leftBody.length);
    rightRow.pointTo(rightBody, rightBody.length);
    return predicate.eval(bothRows);
  }

  /** A row has found its first match, or lost its last. */
  private void turn(JoinSide side, byte[] row, long count, boolean matched) {
    boolean comes = matched ? side.givenMatched : side.givenUnmatched;
    give(side, row, comes ? count : -count);
  }

  private void give(JoinSide side, byte[] row, long count) {
    joined.add(side == left ? row : null, side == left ? null : row, count);
  }

  private void give(JoinSide side, byte[] row, byte[] others, long count) {
    joined.add(side == left ? row : others, side == left ? others : row, count);
  }
}
