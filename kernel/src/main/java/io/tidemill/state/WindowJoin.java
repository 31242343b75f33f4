package io.tidemill.state;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/**
 * A join of the rows of the same window, when it closes. Until then the rows of both sides wait, in {@link Segments};
 * what the timeline has is their number.
 *
 * <p>A row whose key holds a NULL never matches: it is given by itself, or is dropped and counted.
 */
final class WindowJoin extends KeyedWindows {
  /** {@code window}: its time is the left side's column. */
  record WindowJoinSpec(
      String name,
      String kind,
      Join.SideSpec left,
      Join.SideSpec right,
      List<Boolean> nullSafe,
      String condition,
      WindowSpec window,
      TimeSpec clock)
      implements Serializable {}

  private final WindowJoinSpec spec;
  private final boolean half;
  private final boolean keepsLeft;
  private final boolean keepsRight;
  private final StructType leftColumns;
  private final StructType rightColumns;
  private final Expression condition;

  private transient Segments segments;
  private transient ByteReader in;
  private transient ByteWriter out;
  private transient TwoSides sides;

  private WindowJoin(
      WindowJoinSpec spec, StructType keys, StructType left, StructType right, Expression condition, Counts counts) {
    super(spec.name(), keys, spec.window(), counts);
    this.spec = spec;
    this.half = spec.kind().equals("SEMI") || spec.kind().equals("ANTI");
    this.keepsLeft = Join.keepsLeft(spec.kind());
    this.keepsRight = Join.keepsRight(spec.kind());
    this.leftColumns = left;
    this.rightColumns = right;
    this.condition = condition;
  }

  static Dataset<Row> plan(Dataset<Row> left, Dataset<Row> right, WindowJoinSpec spec, Counts counts) {
    TwoSides.Columns columns =
        TwoSides.Columns.of(left, right, spec.left(), spec.right(), spec.condition(), spec.name());
    StructType leftColumns = columns.left();
    StructType rightColumns = columns.right();
    StructType keys = Packing.columns(left.schema(), spec.left().keys(), spec.name());
    WindowJoin operator = new WindowJoin(spec, keys, leftColumns, rightColumns, columns.condition(), counts);
    Dataset<Tuple2<byte[], byte[]>> pairs =
        packed(left, spec.left(), leftColumns, spec, operator.keepsLeft, 0, counts)
            .union(packed(right, spec.right(), rightColumns, spec, operator.keepsRight, Header.RIGHT, counts));
    Dataset<Tuple2<byte[], byte[]>> joined = operator.timed(spec.clock(), counts, leftColumns, rightColumns).over(Packing.number(pairs));
    return operator.half
        ? Packing.unpack(joined, new StructType(), leftColumns)
        : Packing.unpack(joined, leftColumns, operator.keepsRight, rightColumns, operator.keepsLeft);
  }

  private static Dataset<Tuple2<byte[], byte[]>> packed(
      Dataset<Row> input,
      Join.SideSpec side,
      StructType columns,
      WindowJoinSpec spec,
      boolean kept,
      long bit,
      Counts counts) {
    StructType keys = Packing.columns(input.schema(), side.keys(), spec.name());
    Column never = Join.neverMatches(input, keys, spec.nullSafe());
    Dataset<Row> rows =
        never == null || kept ? input : input.where(functions.not(never).or(counts.leavesOut(Packing.kind(input))));
    return Packing.pack(rows, keys, columns, functions.lit(bit));
  }

  @Override
  void open(boolean isAtWork) {
    super.open(isAtWork);
    segments = isAtWork ? new Segments(newTimeline("window_rows")) : null;
    in = new ByteReader();
    out = new ByteWriter(256);
    sides = new TwoSides(leftColumns, rightColumns, condition);
  }

  private long pieces(byte[] known) {
    if (known == null) {
      return 0;
    }
    in.over(known);
    checkVersion(in);
    return in.readVarint();
  }

  @Override
  byte[] keep(long end, byte[] key, byte[] known, Iterator<byte[]> rows) {
    long pieces = pieces(known);
    out.reset();
    rows.forEachRemaining(row -> out.writeBytes(row, 0, row.length));
    segments.put(end, key, pieces, out.toBytes());
    out.reset();
    out.writeByte(VERSION);
    out.writeVarint(pieces + 1);
    return out.toBytes();
  }

  @Override
  void close(long end, byte[] key, byte[] known, Iterator<byte[]> rows, Changes changes) {
    List<byte[]> left = new ArrayList<>();
    List<byte[]> right = new ArrayList<>();
    long pieces = pieces(known);
    for (long piece = 0; piece < pieces; piece++) {
      in.over(segments.get(end, key, piece));
      while (in.hasMore()) {
        byte[] row = in.readBytes();
        (Header.isRight(PackedRow.header(row)) ? right : left).add(row);
      }
      segments.remove(end, key, piece);
    }
    rows.forEachRemaining(row -> (Header.isRight(PackedRow.header(row)) ? right : left).add(row));
    join(left, canMatch(key) ? right : List.of(), changes);
    if (!canMatch(key) && keepsRight) {
      right.forEach(row -> give(null, row, changes));
    }
  }

  private boolean canMatch(byte[] key) {
    UnsafeRow columns = columns(key);
    for (int i = 0; i < spec.nullSafe().size(); i++) {
      if (!spec.nullSafe().get(i) && columns.isNullAt(i)) {
        return false;
      }
    }
    return true;
  }

  private void join(List<byte[]> left, List<byte[]> right, Changes changes) {
    boolean[] matched = new boolean[right.size()];
    for (byte[] row : left) {
      boolean matches = false;
      for (int i = 0; i < matched.length; i++) {
        byte[] other = right.get(i);
        if (!sides.match(row, other)) {
          continue;
        }
        matches = true;
        matched[i] = true;
        if (half) {
          break;
        }
        give(row, other, changes);
      }
      if (half ? matches != spec.kind().equals("ANTI") : keepsLeft && !matches) {
        give(row, null, changes);
      }
    }
    for (int i = 0; keepsRight && i < matched.length; i++) {
      if (!matched[i]) {
        give(null, right.get(i), changes);
      }
    }
  }

  private void give(byte[] left, byte[] right, Changes changes) {
    if (half) {
      changes.insert(Packing.NOTHING, left);
    } else {
      changes.insert(left == null ? Packing.NOTHING : left, right == null ? new byte[PackedRow.HEADER] : right);
    }
  }
}
