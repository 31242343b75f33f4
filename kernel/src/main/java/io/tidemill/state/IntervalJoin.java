package io.tidemill.state;

import io.tidemill.time.Mark;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/**
 * A join of rows whose times are near each other. Both sides are appended to, and come as one stream.
 *
 * <p>The rules are Flink's. A row waits until the watermark says that no partner can come any more; where it has found
 * none by then, and its side is an outer one, it is given with NULLs. A row for which it is too late to wait meets those
 * who still do. A key has one timer for each side: it cleans, and is then set for the oldest row that is left. So a row
 * that came out of order may wait longer than it must, and meet a partner that is late.
 *
 * <p>Of a batch, one side's rows come as they have come, then the other side's, since between topics there is no order
 * that one could keep. First comes the side whose rows all wait, so that the others find them.
 */
final class IntervalJoin extends KeyedProcessor {
  /**
   * What the planner asks: left time + lower <= right time <= left time + upper.
   *
   * @param leftTime the column of the left side's rowtime; of no meaning to the machine's clock
   */
  record IntervalSpec(
      String name,
      String kind,
      Join.SideSpec left,
      Join.SideSpec right,
      List<Boolean> nullSafe,
      String condition,
      String leftTime,
      String rightTime,
      long lower,
      long upper,
      boolean rowtime,
      TimeSpec clock)
      implements Serializable {
    boolean keepsLeft() {
      return kind.equals("LEFT") || kind.equals("FULL");
    }

    boolean keepsRight() {
      return kind.equals("RIGHT") || kind.equals("FULL");
    }
  }

  private static final long NO_TIMER = Long.MAX_VALUE;
  private static final byte[] TIMER = {1};

  /**
   * One side, for the key at hand. An entry's key is a packed row whose header is its time; its count says how many such
   * rows there are, its mark how many of them, of an outer side, have no partner yet.
   */
  private final class Side {
    final boolean isRight;
    final int time;
    /** How much later than a row its partners may be. */
    final long reach;
    final boolean isOuter;
    final Bag bag;
    final List<byte[]> rows = new ArrayList<>();
    /** Whether there are rows among them that do not wait. */
    boolean hasPassing;
    /** When it is cleaned next. */
    long timer;

    Side(boolean isRight, int time, long reach, boolean isOuter, Pages pages) {
      this.isRight = isRight;
      this.time = time;
      this.reach = reach;
      this.isOuter = isOuter;
      this.bag = new Bag(isRight ? 1 : 0, pages);
    }

    /** Takes a row, whose header becomes its time. */
    void take(byte[] row) {
      long at = spec.rowtime() ? sides.time(row, isRight, time) : then();
      if (spec.rowtime() && !sides.hasTime(row, isRight, time)) {
        counts.add(Counts.NULL_TIME, 1);
      }
      if (isLate(at)) {
        headers.put(row, PackedRow.header(row));
      }
      rows.add(PackedRow.setHeader(row, ordered(at)));
      hasPassing |= !waits(row);
    }

    boolean waits(byte[] row) {
      return then() < timeOf(row) + reach;
    }

    void keep(byte[] row, boolean matched) {
      Bag.Entry entry = bag.obtain(row);
      entry.count++;
      entry.mark += isOuter && !matched ? 1 : 0;
      if (timer == NO_TIMER) {
        timer = due(row);
      }
    }

    private long due(byte[] row) {
      return timeOf(row) + reach + 1;
    }

    /** Lets go of what has no partner to wait for. */
    void clean(long time, Changes changes) {
      byte[] first = key(time == Mark.END ? time : time - reach);
      bag.removeBefore(
          first,
          entry -> {
            for (long n = entry.mark; n > 0; n--) {
              giveAlone(entry.key, changes);
            }
          });
    }

    void fire(long time, Changes changes) {
      if (timer != NO_TIMER && timer <= time) {
        clean(time, changes);
        Bag.Entry oldest = bag.first();
        timer = oldest == null ? NO_TIMER : due(oldest.key);
      }
    }

    void giveAlone(byte[] row, Changes changes) {
      byte[] none = new byte[PackedRow.HEADER];
      changes.insert(isRight ? none : row, isRight ? row.clone() : none);
    }
  }

  private final IntervalSpec spec;
  private final StructType leftColumns;
  private final StructType rightColumns;
  private final boolean hasKeys;
  private final Expression condition;
  private final Counts counts;

  private transient TwoSides sides;
  private transient Side left;
  private transient Side right;
  /** What the headers of late rows were before they became times. */
  private transient Map<byte[], Long> headers;

  private IntervalJoin(IntervalSpec spec, StructType left, StructType right, Expression condition, Counts counts) {
    super(spec.name(), false, true);
    this.spec = spec;
    this.leftColumns = left;
    this.rightColumns = right;
    this.hasKeys = !spec.left().keys().isEmpty();
    this.condition = condition;
    this.counts = counts;
  }

  static Dataset<Row> plan(Dataset<Row> left, Dataset<Row> right, IntervalSpec spec, Counts counts) {
    String name = spec.name();
    TwoSides.Columns columns =
        TwoSides.Columns.of(left, right, spec.left(), spec.right(), spec.condition(), name);
    StructType leftColumns = columns.left();
    StructType rightColumns = columns.right();
    KeyedProcessor operator =
        new IntervalJoin(spec, leftColumns, rightColumns, columns.condition(), counts)
            .timed(spec.clock(), counts, leftColumns, rightColumns);
    Dataset<Tuple2<byte[], byte[]>> pairs =
        Join.packed(left, spec.left(), leftColumns, name, spec.nullSafe(), spec.keepsLeft(), 0, counts)
            .union(
                Join.packed(
                    right,
                    spec.right(),
                    rightColumns,
                    name,
                    spec.nullSafe(),
                    spec.keepsRight(),
                    Header.RIGHT,
                    counts));
    Dataset<Tuple2<byte[], byte[]>> result = operator.over(Packing.number(pairs));
    return Packing.unpack(result, leftColumns, spec.keepsRight(), rightColumns, spec.keepsLeft());
  }

  @Override
  boolean isPaged() {
    return true;
  }

  @Override
  boolean hasTimeline() {
    return true;
  }

  @Override
  void open(Pages pages) {
    sides = new TwoSides(leftColumns, rightColumns, condition);
    headers = new IdentityHashMap<>();
    left = new Side(false, leftColumns.fieldIndex(spec.leftTime()), spec.upper(), spec.keepsLeft(), pages);
    right = new Side(true, rightColumns.fieldIndex(spec.rightTime()), -spec.lower(), spec.keepsRight(), pages);
  }

  /** Before 1970 Flink's joins have no time. */
  private long then() {
    return spec.rowtime() ? Math.max(0, moment().before()) : clock();
  }

  private long now() {
    if (moment().now() == Mark.END) {
      return Mark.END;
    }
    return spec.rowtime() ? Math.max(0, moment().now()) : clock();
  }

  @Override
  long held(long watermark) {
    boolean says = spec.rowtime() && watermark != Mark.NONE && watermark != Mark.END;
    return says ? watermark - Math.max(left.reach, right.reach) : watermark;
  }

  private boolean isLate(long time) {
    return spec.rowtime() && time <= then();
  }

  @Override
  long eventTime(byte[] late) {
    boolean isRight = Header.isRight(PackedRow.header(late));
    return sides.time(late, isRight, (isRight ? right : left).time);
  }

  private static long ordered(long time) {
    return time ^ Long.MIN_VALUE;
  }

  private static long timeOf(byte[] row) {
    return ordered(PackedRow.header(row));
  }

  private static byte[] key(long time) {
    return PackedRow.setHeader(new byte[PackedRow.HEADER], ordered(time));
  }

  // State: the two timers, then the rows of the two sides.
  @Override
  boolean process(byte[] key, ByteReader before, Iterator<byte[]> rows, ByteWriter after, Changes changes) {
    read(left, before);
    read(right, before);
    long timer = Math.min(left.timer, right.timer);
    while (rows.hasNext()) {
      byte[] row = rows.next();
      (Header.isRight(PackedRow.header(row)) ? right : left).take(row);
    }
    boolean never = hasKeys && key.length == PackedRow.HEADER;
    boolean rightFirst = left.hasPassing && !right.hasPassing;
    come(rightFirst ? right : left, rightFirst ? left : right, never, changes);
    come(rightFirst ? left : right, rightFirst ? right : left, never, changes);
    headers.clear();
    left.fire(now(), changes);
    right.fire(now(), changes);
    setTimer(key, timer);
    if (left.timer == NO_TIMER && right.timer == NO_TIMER) {
      left.bag.drop();
      right.bag.drop();
      return false;
    }
    write(left, after);
    write(right, after);
    return true;
  }

  private static void read(Side side, ByteReader before) {
    side.rows.clear();
    side.hasPassing = false;
    side.timer = before == null ? NO_TIMER : before.readFixed64();
    if (before == null) {
      side.bag.clear();
    } else {
      side.bag.read(before);
    }
  }

  private static void write(Side side, ByteWriter after) {
    after.writeFixed64(side.timer);
    side.bag.write(after);
  }

  /** A key stands in the timeline once, at its earlier timer. */
  private void setTimer(byte[] key, long before) {
    long timer = Math.min(left.timer, right.timer);
    if (timer != before) {
      if (before != NO_TIMER) {
        timeline().remove(before, key);
      }
      if (timer != NO_TIMER) {
        timeline().put(timer, key, TIMER);
      }
    }
  }

  private void come(Side side, Side other, boolean never, Changes changes) {
    for (byte[] row : side.rows) {
      boolean matched = !never && meet(row, side, other, changes);
      other.clean(then(), changes);
      if (side.waits(row)) {
        side.keep(row, matched);
      } else if (!matched) {
        if (isLate(timeOf(row))) {
          PackedRow.setHeader(row, headers.get(row));
          if (side.isOuter) {
            countLate(row);
          } else {
            dropLate(row);
          }
        }
        if (side.isOuter) {
          side.giveAlone(row, changes);
        }
      }
    }
  }

  /** Whether a row finds a partner among those of the other side that wait. */
  private boolean meet(byte[] row, Side side, Side other, Changes changes) {
    long time = timeOf(row);
    boolean matched = false;
    for (Bag.Cursor entries = other.bag.from(key(time - other.reach)); entries.hasNext(); ) {
      Bag.Entry entry = entries.next();
      if (timeOf(entry.key) > time + side.reach) {
        break;
      }
      byte[] ofLeft = side.isRight ? entry.key : row;
      byte[] ofRight = side.isRight ? row : entry.key;
      if (!sides.match(ofLeft, ofRight)) {
        continue;
      }
      matched = true;
      for (long n = entry.count; n > 0; n--) {
        changes.insert(ofLeft, ofRight.clone());
      }
      if (entry.mark != 0) {
        entry.mark = 0;
        entries.changed();
      }
    }
    return matched;
  }

  @Override
  Iterator<Tuple2<byte[], byte[]>> advance() {
    if (then() == Mark.END) {
      return Collections.emptyIterator();
    }
    // What was due before has been done: timers are set for later than that.
    long from = spec.rowtime() ? then() + 1 : Long.MIN_VALUE;
    return Timer.due(timeline(), from, now(), this::wake, this::waitForNext);
  }

  /** Nobody else sees to it that time goes on. */
  private void waitForNext() {
    if (!spec.rowtime()) {
      try (Timeline.Entries later = timeline().entries(Long.MIN_VALUE, Mark.END)) {
        if (later.hasNext()) {
          counts.wakeAt(later.next().time());
        }
      }
    }
  }

  @Override
  StructType kept() {
    return TwoSides.shown(leftColumns, rightColumns);
  }

  @Override
  void show(ByteReader state, Consumer<byte[]> rows) {
    for (Side side : List.of(left, right)) {
      state.readFixed64();
      side.bag.read(state);
      for (Bag.Cursor entries = side.bag.all(); entries.hasNext(); ) {
        Bag.Entry entry = entries.next();
        for (long n = entry.count; n > 0; n--) {
          sides.show(entry.key, side.isRight, rows);
        }
      }
    }
  }
}
