package io.tidemill.state;

import io.tidemill.time.Mark;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.function.Consumer;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/**
 * Each row of the left side with the version of the right side's row that held at its time.
 *
 * <p>The rules are Flink's. Rows of the left side wait until the watermark has passed their time, then they are given in
 * the order in which they came. A version holds from its time on, until the next one; of versions of one time the last
 * one counts; a delete is a version without a row. A key has one timer, for the earliest of the times that it waits for;
 * when it goes off, the versions go before which the last one that the watermark has passed holds. A row or a version
 * that is late counts all the same, at the next watermark, among the versions that are still there.
 */
final class TemporalJoin extends KeyedProcessor {
  /** What the planner asks. */
  record TemporalSpec(
      String name,
      String kind,
      Join.SideSpec left,
      Join.SideSpec right,
      List<Boolean> nullSafe,
      String condition,
      String leftTime,
      String rightTime,
      List<Long> ttl,
      TimeSpec clock)
      implements Serializable {
    boolean isOuter() {
      return kind.equals("LEFT");
    }
  }

  private static final long NO_TIMER = Long.MAX_VALUE;
  private static final byte[] TIMER = {1};
  private static final Comparator<Bag.Entry> BY_ARRIVAL = Comparator.comparingLong(entry -> entry.mark);

  private final TemporalSpec spec;
  private final StructType leftColumns;
  private final StructType rightColumns;
  private final boolean hasKeys;
  private final Expression condition;
  private final Counts counts;

  private transient TwoSides sides;
  private transient int leftTime;
  private transient int rightTime;
  /** (time, number of arrival) → row; the mark is the number, the count the row's kind. */
  private transient Bag left;
  /** time → version; the count is the kind of its row. */
  private transient Bag right;

  private TemporalJoin(TemporalSpec spec, StructType left, StructType right, Expression condition, Counts counts) {
    super(spec.name(), false, true);
    this.spec = spec;
    this.leftColumns = left;
    this.rightColumns = right;
    this.hasKeys = !spec.left().keys().isEmpty();
    this.condition = condition;
    this.counts = counts;
  }

  static Dataset<Row> plan(Dataset<Row> left, Dataset<Row> right, TemporalSpec spec, Counts counts) {
    String name = spec.name();
    TwoSides.Columns columns =
        TwoSides.Columns.of(left, right, spec.left(), spec.right(), spec.condition(), name);
    StructType leftColumns = columns.left();
    StructType rightColumns = columns.right();
    KeyedProcessor operator =
        new TemporalJoin(spec, leftColumns, rightColumns, columns.condition(), counts)
            .expiring(Expiry.after(spec.ttl()))
            .timed(spec.clock(), counts, leftColumns, rightColumns);
    List<Boolean> nullSafe = spec.nullSafe();
    Dataset<Tuple2<byte[], byte[]>> pairs =
        Join.packed(left, spec.left(), leftColumns, name, nullSafe, spec.isOuter(), 0, counts)
            .union(Join.packed(right, spec.right(), rightColumns, name, nullSafe, false, Header.RIGHT, counts));
    Dataset<Tuple2<byte[], byte[]>> result = operator.over(Packing.number(pairs));
    return Packing.unpack(result, leftColumns, false, rightColumns, spec.isOuter());
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
    leftTime = leftColumns.fieldIndex(spec.leftTime());
    rightTime = rightColumns.fieldIndex(spec.rightTime());
    left = new Bag(0, pages, Expiry.NEVER);
    right = new Bag(1, pages, Expiry.NEVER);
  }

  private static byte[] key(long time) {
    return PackedRow.setHeader(new byte[PackedRow.HEADER], time ^ Long.MIN_VALUE);
  }

  private static long timeOf(Bag.Entry entry) {
    return PackedRow.header(entry.key) ^ Long.MIN_VALUE;
  }

  // State: the timer, where it stands in the timeline, the number of the next row, then the rows of the two sides.
  @Override
  boolean process(byte[] key, ByteReader before, Iterator<byte[]> rows, ByteWriter after, Changes changes) {
    long timer = before == null ? NO_TIMER : before.readFixed64();
    long standing = before == null ? NO_TIMER : before.readFixed64();
    long arrived = before == null ? 0 : before.readVarint();
    for (Bag side : List.of(left, right)) {
      if (before == null) {
        side.clear();
      } else {
        side.read(before);
      }
    }
    long first = NO_TIMER;
    while (rows.hasNext()) {
      byte[] row = rows.next();
      boolean isRight = Header.isRight(PackedRow.header(row));
      if (!sides.hasTime(row, isRight, isRight ? rightTime : leftTime)) {
        counts.add(Counts.NULL_TIME, 1);
      }
      long time = sides.time(row, isRight, isRight ? rightTime : leftTime);
      if (isRight) {
        addVersion(time, row);
      } else {
        addRow(time, arrived++, row);
      }
      first = Math.min(first, time);
    }
    timer = Math.min(timer, first);
    long now = moment().now();
    boolean moves = now > moment().before();
    if (moves && timer != NO_TIMER && timer <= now) {
      giveUpTo(now, hasKeys && key.length == PackedRow.HEADER, changes);
      forgetVersions(now);
      Bag.Entry next = left.first();
      timer = next == null ? NO_TIMER : timeOf(next);
    }
    standing = setTimer(key, timer, standing);
    boolean isOver = left.isEmpty() && right.isEmpty();
    if (isOver) {
      left.drop();
      right.drop();
      return false;
    }
    after.writeFixed64(timer);
    after.writeFixed64(standing);
    after.writeVarint(left.isEmpty() ? 0 : arrived);
    left.write(after);
    right.write(after);
    return true;
  }

  private void addRow(long time, long number, byte[] row) {
    if (time <= moment().before()) {
      countLate(row);
    }
    ByteWriter key = new ByteWriter(2 * Long.BYTES);
    key.writeRaw(key(time), 0, Long.BYTES);
    key.writeRaw(key(number), 0, Long.BYTES);
    Bag.Entry entry = left.obtain(key.toBytes());
    entry.count = Header.kind(PackedRow.header(row));
    entry.mark = number;
    entry.value = row;
  }

  private void addVersion(long time, byte[] row) {
    Bag.Entry entry = right.obtain(key(time));
    entry.count = Header.kind(PackedRow.header(row));
    entry.value = row;
  }

  /** A late time is due with the next watermark: the timeline is only read from there on. */
  private long setTimer(byte[] key, long timer, long standing) {
    long from = moment().now();
    long wanted = timer > from || from == Mark.END ? timer : from + 1;
    if (wanted != standing) {
      if (standing != NO_TIMER) {
        timeline().remove(standing, key);
      }
      if (wanted != NO_TIMER) {
        timeline().put(wanted, key, TIMER);
      }
    }
    return wanted;
  }

  private void giveUpTo(long watermark, boolean never, Changes changes) {
    List<Bag.Entry> due = new ArrayList<>();
    Consumer<Bag.Entry> take = due::add;
    if (watermark == Mark.END) {
      left.all().forEachRemaining(take);
      left.drop();
    } else {
      left.removeBefore(key(watermark + 1), take);
    }
    due.sort(BY_ARRIVAL);
    for (Bag.Entry row : due) {
      Bag.Entry version = never ? null : versionAt(timeOf(row));
      boolean matched =
          version != null && Header.adds(version.count) && sides.match(row.value, version.value);
      if (matched) {
        changes.add((int) row.count, row.value, version.value.clone());
      } else if (spec.isOuter()) {
        changes.add((int) row.count, row.value, new byte[PackedRow.HEADER]);
      }
    }
  }

  private Bag.Entry versionAt(long time) {
    return right.floor(key(time));
  }

  /** The last version that the watermark has passed holds on; those before it are over. */
  private void forgetVersions(long watermark) {
    Bag.Entry holds = versionAt(watermark);
    if (holds != null) {
      right.removeBefore(holds.key, gone -> {});
    }
  }

  @Override
  Iterator<Tuple2<byte[], byte[]>> advance() {
    long before = moment().before();
    if (moment().now() <= before) {
      return Collections.emptyIterator();
    }
    long from = before == Mark.NONE ? before : before + 1;
    return Timer.due(timeline(), from, moment().now(), this::wake, () -> {});
  }

  @Override
  StructType kept() {
    return TwoSides.shown(leftColumns, rightColumns);
  }

  @Override
  void show(ByteReader state, Consumer<byte[]> rows) {
    state.readFixed64();
    state.readFixed64();
    state.readVarint();
    left.read(state);
    right.read(state);
    left.all().forEachRemaining(entry -> sides.show(entry.value, false, rows));
    right
        .all()
        .forEachRemaining(
            entry -> {
              if (Header.adds(entry.count)) {
                sides.show(entry.value, true, rows);
              }
            });
  }
}
