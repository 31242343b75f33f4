package io.tidemill.state;

import io.tidemill.time.Mark;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/**
 * OVER aggregates in the order of time: every row leaves once, with what the calls give of the rows before it. By a
 * rowtime it leaves when the watermark has reached it, in the order of time, equal ones as they came; by processing time
 * at once.
 *
 * <p>State of a key: the accumulators, the rows that wait, and, where frames have a bound, the arguments of those that are
 * in the frame. Waiting rows that become due with the batch that brings them never touch state.
 *
 * <p>What is late follows Flink, function by function. Without a bound it is what the watermark has reached. With one it
 * is what is not later than the last row that was given for its key: a row that is behind the watermark, but not behind
 * its key, is given when the watermark moves next. A RANGE with a bound forgets its keys half as long again after their
 * last row as it looks back, and with them what was given.
 */
final class Over extends KeyedProcessor {
  /**
   * What the planner asks. {@code time} is the column of the rowtime, null if arrival counts; {@code preceding} how many
   * rows or milliseconds a frame looks back, null for all. Calls retract where frames have a bound.
   */
  record OverSpec(
      String name,
      List<String> keys,
      List<String> columns,
      AggregateSpec calls,
      String time,
      boolean rows,
      Long preceding,
      List<Long> ttl,
      TimeSpec clock)
      implements Serializable {
    boolean isBounded() {
      return preceding != null;
    }

    boolean isRange() {
      return isBounded() && !rows;
    }

    /** Rows that are out of reach need not be kept; by a rowtime the watermark sees to that. */
    Expiry expiry() {
      if (!isRange()) {
        return Expiry.after(ttl);
      }
      return time == null ? Expiry.after(List.of(preceding + 1)) : Expiry.NEVER;
    }
  }

  // Behind the slots of accumulators.
  private static final int WAITING = 1 << 21;
  private static final int FRAME = WAITING + 1;
  /** Flink: rows from then on are late, whatever was given. */
  private static final long EPOCH = 0;

  /** A row that is not late, where it belongs, and what it is. */
  private record Placed(long time, long number, byte[] row) {
    private static final Comparator<Placed> ORDER =
        Comparator.comparingLong(Placed::time).thenComparingLong(Placed::number);

    static Placed of(Bag.Entry entry) {
      ByteBuffer key = ByteBuffer.wrap(entry.key);
      return new Placed(key.getLong() ^ Long.MIN_VALUE, key.getLong(), entry.value);
    }

    byte[] key() {
      return ByteBuffer.allocate(2 * Long.BYTES).putLong(time ^ Long.MIN_VALUE).putLong(number).array();
    }
  }

  private final OverSpec spec;
  private final StructType columns;
  private final StructType arguments;
  private final Counts counts;

  private transient Aggregation aggregation;
  private transient UnsafeProjection projection;
  private transient UnsafeRow row;
  private transient UnsafeRow left;
  private transient int timeOrdinal;
  private transient Timer timer;
  private transient Bag waiting;
  private transient Frame frame;
  /** How many rows of the key have come. */
  private transient long arrivals;
  /** The time of what was given last. */
  private transient long last;
  /** Of a RANGE: when Flink's timers are due that forget the key. Only the last one of them does. */
  private transient ArrayDeque<Long> ends;

  private Over(OverSpec spec, StructType columns, StructType arguments, Counts counts) {
    super(spec.name(), false, true);
    this.spec = spec;
    this.columns = columns;
    this.arguments = arguments;
    this.counts = counts;
  }

  static Dataset<Row> plan(Dataset<Row> input, OverSpec spec, Counts counts) {
    StructType keys = Packing.columns(input.schema(), spec.keys(), spec.name());
    StructType columns = Packing.columns(input.schema(), spec.columns(), spec.name());
    StructType arguments = Aggregation.arguments(spec.calls(), columns);
    Aggregation.accumulators(spec.calls(), arguments);
    Dataset<Tuple2<byte[], byte[]>> pairs = Packing.number(Packing.pack(input, keys, columns));
    KeyedProcessor operator =
        new Over(spec, columns, arguments, counts).expiring(spec.expiry()).timed(spec.clock(), counts, columns);
    return Packing.unpack(
        operator.over(pairs), columns, DataTypes.createStructType(Aggregation.results(spec.calls())));
  }

  @Override
  boolean isPaged() {
    return true;
  }

  @Override
  boolean hasTimeline() {
    return spec.time() != null;
  }

  @Override
  void open(Pages pages) {
    aggregation = new Aggregation(spec.calls(), arguments, counts, pages, 0);
    projection = UnsafeProjection.create(PackedRow.seq(references()));
    row = new UnsafeRow(columns.size());
    left = new UnsafeRow(arguments.size());
    timeOrdinal = spec.time() == null ? -1 : columns.fieldIndex(spec.time());
    timer = new Timer(timeline());
    waiting = new Bag(WAITING, pages, Expiry.NEVER);
    frame = new Frame(new Bag(FRAME, pages, Expiry.NEVER));
    ends = new ArrayDeque<>();
  }

  /** Where the arguments are in a row. */
  private Expression[] references() {
    Expression[] found = new Expression[arguments.size()];
    for (int i = 0; i < found.length; i++) {
      StructField field = arguments.apply(i);
      found[i] = new BoundReference(columns.fieldIndex(field.name()), field.dataType(), field.nullable());
    }
    return found;
  }

  @Override
  boolean process(byte[] key, ByteReader before, Iterator<byte[]> rows, ByteWriter after, Changes changes) {
    read(before);
    aggregation.begin();
    boolean stays = spec.time() == null ? giveAll(rows, changes) : giveDue(key, rows, changes);
    aggregation.countOverflows();
    if (stays) {
      write(after);
    } else {
      aggregation.drop();
      frame.kept.drop();
      waiting.drop();
    }
    return stays;
  }

  // --- state -------------------------------------------------------------------------------------

  private void read(ByteReader before) {
    ends.clear();
    if (before == null) {
      arrivals = 0;
      last = EPOCH;
      timer.clear();
      aggregation.clear();
      waiting.clear();
      frame.kept.clear();
    } else {
      before.readByte();
      arrivals = before.readVarint();
      if (spec.time() != null) {
        timer.read(before);
        last = before.readZigzag();
        for (int i = before.readLength(); i > 0; i--) {
          ends.add(before.readZigzag());
        }
        waiting.read(before);
      }
      aggregation.read(before);
      if (spec.isBounded()) {
        frame.kept.read(before);
      }
    }
    frame.begin();
  }

  private void write(ByteWriter after) {
    after.writeByte(waiting.isEmpty() ? 0 : 1);
    after.writeVarint(arrivals);
    if (spec.time() != null) {
      timer.write(after);
      after.writeZigzag(last);
      after.writeVarint(ends.size());
      ends.forEach(after::writeZigzag);
      waiting.write(after);
    }
    aggregation.write(after);
    if (spec.isBounded()) {
      frame.end();
      frame.kept.write(after);
    }
  }

  @Override
  boolean waits(ByteReader state) {
    return state.readByte() != 0;
  }

  // --- by processing time ------------------------------------------------------------------------

  /** Rows of one batch come at one time. */
  private boolean giveAll(Iterator<byte[]> rows, Changes changes) {
    List<Placed> all = new ArrayList<>();
    long now = spec.isRange() ? clock() : 0;
    rows.forEachRemaining(packed -> all.add(new Placed(now, arrivals++, packed)));
    if (spec.isRange()) {
      give(all, changes);
    } else {
      all.forEach(each -> give(each, changes));
    }
    return true;
  }

  // --- by a rowtime ------------------------------------------------------------------------------

  private boolean giveDue(byte[] key, Iterator<byte[]> rows, Changes changes) {
    List<Placed> rest = accept(rows);
    if (Timer.isDue(moment())) {
      List<Placed> due = new ArrayList<>();
      takeWaiting(due);
      int ripe = 0;
      while (ripe < rest.size() && rest.get(ripe).time <= moment().now()) {
        ripe++;
      }
      due.addAll(rest.subList(0, ripe));
      rest = rest.subList(ripe, rest.size());
      due.sort(Placed.ORDER);
      giveInOrder(due, changes);
    }
    for (Placed each : rest) {
      waiting.put(each.key(), PackedRow.body(each.row));
    }
    boolean stays = !isForgotten();
    timer.set(key, stays ? next() : Mark.END, moment());
    return stays;
  }

  @Override
  long eventTime(byte[] packed) {
    return Slice.milliseconds(PackedRow.point(row, packed).getLong(timeOrdinal));
  }

  /** The rows that are not late, in their order. Flink: a row without a time has the time 0. */
  private List<Placed> accept(Iterator<byte[]> rows) {
    List<Placed> accepted = new ArrayList<>();
    long timeless = 0;
    long reached = spec.isBounded() ? last : moment().before();
    while (rows.hasNext()) {
      byte[] packed = rows.next();
      long time = eventTime(packed);
      if (time > reached) {
        accepted.add(new Placed(time, arrivals++, packed));
        if (spec.isRange()) {
          expectEnd(time);
        }
      } else if (row.isNullAt(timeOrdinal)) {
        timeless++;
      } else {
        dropLate(packed);
      }
    }
    counts.add(Counts.NULL_TIME, timeless);
    accepted.sort(Placed.ORDER);
    return accepted;
  }

  private void expectEnd(long time) {
    if (ends.isEmpty() || ends.getLast() < time + spec.preceding() + 1) {
      ends.add(time + (long) (spec.preceding() * 1.5) + 1);
    }
  }

  private void takeWaiting(List<Placed> due) {
    for (Bag.Cursor entries = waiting.all(); entries.hasNext(); ) {
      Bag.Entry entry = entries.next();
      Placed placed = Placed.of(entry);
      if (placed.time > moment().now()) {
        break;
      }
      due.add(new Placed(placed.time, placed.number, PackedRow.withHeader(0, entry.value)));
    }
    due.forEach(each -> waiting.remove(each.key()));
  }

  private void giveInOrder(List<Placed> due, Changes changes) {
    for (int from = 0; from < due.size(); ) {
      int to = from + 1;
      while (to < due.size() && due.get(to).time == due.get(from).time) {
        to++;
      }
      List<Placed> peers = due.subList(from, to);
      if (spec.rows()) {
        peers.forEach(each -> give(each, changes));
      } else {
        give(peers, changes);
      }
      last = due.get(from).time;
      from = to;
    }
    while (!ends.isEmpty() && ends.getFirst() <= moment().now()) {
      last = Math.max(last, ends.removeFirst());
    }
  }

  /** Whether nothing is left to remember. */
  private boolean isForgotten() {
    return arrivals == 0 || spec.isRange() && ends.isEmpty();
  }

  /** When there is something to do. */
  private long next() {
    long row = waiting.isEmpty() ? Mark.END : Placed.of(waiting.all().next()).time;
    return ends.isEmpty() ? row : Math.min(row, ends.getFirst());
  }

  @Override
  Iterator<Tuple2<byte[], byte[]>> advance() {
    return spec.time() == null
        ? java.util.Collections.emptyIterator()
        : Timer.due(timeline(), moment(), this::wake);
  }

  // --- results -----------------------------------------------------------------------------------

  /** ROWS: a row, and so many before it. */
  private void give(Placed each, Changes changes) {
    if (spec.isBounded() && frame.size() > spec.preceding()) {
      frame.leave();
    }
    enter(each);
    aggregation.settle();
    changes.insert(each.row, aggregation.result());
  }

  /** RANGE: rows of one time have one result. */
  private void give(List<Placed> peers, Changes changes) {
    if (spec.isBounded()) {
      long first = peers.get(0).time - spec.preceding();
      while (frame.size() > 0 && frame.first().time < first) {
        frame.leave();
      }
    }
    peers.forEach(this::enter);
    aggregation.settle();
    byte[] result = aggregation.result();
    for (Placed each : peers) {
      changes.insert(each.row, result);
    }
  }

  private void enter(Placed each) {
    UnsafeRow values = projection.apply(PackedRow.point(row, each.row));
    aggregation.add(values, 1);
    if (spec.isBounded()) {
      frame.entered.add(new Placed(each.time, each.number, values.copy().getBytes()));
    }
  }

  /**
   * The arguments of rows that a result holds, in their order. Those of earlier batches lie in a bag, and are read as they
   * leave; what enters and leaves within a batch is never put there.
   */
  private final class Frame {
    private final Bag kept;
    private final ArrayDeque<Placed> entered = new ArrayDeque<>();
    private final List<byte[]> gone = new ArrayList<>();
    private Bag.Cursor rest;
    /** How many of the bag are in it. */
    private long old;
    private Placed first;

    Frame(Bag kept) {
      this.kept = kept;
    }

    void begin() {
      entered.clear();
      gone.clear();
      rest = kept.all();
      old = kept.size();
      first = null;
    }

    long size() {
      return old + entered.size();
    }

    Placed first() {
      if (first == null && old > 0) {
        first = Placed.of(rest.next());
      }
      return first == null ? entered.getFirst() : first;
    }

    void leave() {
      byte[] values = first().row;
      if (first == null) {
        entered.removeFirst();
      } else {
        gone.add(first.key());
        first = null;
        old--;
      }
      left.pointTo(values, values.length);
      aggregation.add(left, -1);
    }

    void end() {
      gone.forEach(kept::remove);
      entered.forEach(each -> kept.put(each.key(), each.row));
    }
  }
}
