package io.tidemill.state;

import io.tidemill.time.Mark;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/**
 * All rows in the order of time, then of other columns, then as they came. By a rowtime they leave when the watermark
 * has reached them; by processing time those of a batch leave together. Flink: late is what is not later than the last
 * row that has left.
 *
 * <p>State: rows by time and arrival in a timeline, and how many have come.
 */
final class TemporalSort extends KeyedProcessor {
  /** What the planner asks. {@code time} is the column of the rowtime, null if arrival counts; {@code order} what follows. */
  record SortSpec(
      String name, List<String> columns, String time, List<SortKey.Column> order, TimeSpec clock)
      implements Serializable {}

  private static final byte VERSION = 1;

  private final SortSpec spec;
  private final StructType columns;
  private final Counts counts;

  private transient UnsafeRow row;
  private transient int time;
  private transient SortKey order;
  private transient Timer timer;
  private transient Timeline waiting;

  private TemporalSort(SortSpec spec, StructType columns, Counts counts) {
    super(spec.name(), false, true);
    this.spec = spec;
    this.columns = columns;
    this.counts = counts;
  }

  static Dataset<Row> plan(Dataset<Row> input, SortSpec spec, Counts counts) {
    StructType columns = Packing.columns(input.schema(), spec.columns(), spec.name());
    SortKey.check(columns, spec.order(), spec.name());
    Dataset<Tuple2<byte[], byte[]>> pairs = Packing.number(Packing.pack(input, new StructType(), columns));
    KeyedProcessor operator = new TemporalSort(spec, columns, counts).timed(spec.clock(), counts, columns);
    return Packing.unpack(operator.over(pairs), new StructType(), columns);
  }

  @Override
  boolean isPaged() {
    return false;
  }

  @Override
  boolean hasTimeline() {
    return spec.time() != null;
  }

  @Override
  long eventTime(byte[] packed) {
    return Slice.milliseconds(PackedRow.point(row, packed).getLong(time));
  }

  @Override
  void open(Pages pages) {
    row = new UnsafeRow(columns.size());
    time = spec.time() == null ? -1 : columns.fieldIndex(spec.time());
    order = new SortKey(columns, spec.order());
    timer = new Timer(timeline());
    waiting = timeline() == null ? null : newTimeline("waiting");
  }

  /** A row, and where it belongs. */
  private record Placed(long time, long number, byte[] row) {
    private static final Comparator<Placed> ORDER =
        Comparator.comparingLong(Placed::time).thenComparingLong(Placed::number);
  }

  @Override
  boolean process(byte[] key, ByteReader before, Iterator<byte[]> rows, ByteWriter after, Changes changes) {
    if (spec.time() == null) {
      List<byte[]> all = new ArrayList<>();
      rows.forEachRemaining(all::add);
      give(all, changes);
      return false;
    }
    timer.clear();
    long arrivals = 0;
    long last = Mark.NONE;
    if (before != null) {
      timer.read(before);
      arrivals = before.readVarint();
      last = before.readZigzag();
    }
    List<Placed> due = new ArrayList<>();
    if (Timer.isDue(moment())) {
      takeWaiting(behind(last), due);
    }
    while (rows.hasNext()) {
      byte[] packed = rows.next();
      long at = eventTime(packed);
      if (last != Mark.NONE && at <= last) {
        dropLate(packed);
      } else if (Timer.isDue(moment()) && at <= moment().now()) {
        due.add(new Placed(at, arrivals++, packed));
      } else {
        waiting.put(at, numbered(key, arrivals++), PackedRow.setHeader(packed, VERSION));
      }
    }
    due.sort(Placed.ORDER);
    giveInOrder(due, changes);
    last = due.isEmpty() ? last : due.get(due.size() - 1).time;
    timer.set(key, firstFrom(behind(last)), moment());
    timer.write(after);
    after.writeVarint(arrivals);
    after.writeZigzag(last);
    return arrivals > 0;
  }

  /** The key with a number behind it: in a timeline, rows of one time are in the order of their numbers. */
  private static byte[] numbered(byte[] key, long number) {
    ByteWriter bytes = new ByteWriter(key.length + Long.BYTES);
    bytes.writeRaw(key, 0, key.length);
    for (int shift = 56; shift >= 0; shift -= 8) {
      bytes.writeByte((int) (number >>> shift));
    }
    return bytes.toBytes();
  }

  private static long behind(long last) {
    return last == Mark.NONE ? Mark.NONE : last + 1;
  }

  private void takeWaiting(long from, List<Placed> due) {
    long until = moment().now() == Mark.END ? Mark.END : moment().now() + 1;
    try (Timeline.Entries entries = waiting.entries(from, until)) {
      while (entries.hasNext()) {
        Timeline.Entry entry = entries.next();
        // What waited came before all that comes now, and is in its order.
        due.add(new Placed(entry.time(), Long.MIN_VALUE, read(entry.value())));
        waiting.remove(entry.time(), entry.key());
      }
    }
  }

  private byte[] read(byte[] value) {
    if (PackedRow.header(value) != VERSION) {
      throw new IllegalStateException(
          spec.name() + ": state version " + PackedRow.header(value) + " was written by another release of Tidemill");
    }
    return value;
  }

  private long firstFrom(long from) {
    try (Timeline.Entries entries = waiting.entries(from, Mark.END)) {
      return entries.hasNext() ? entries.next().time() : Mark.END;
    }
  }

  private void giveInOrder(List<Placed> due, Changes changes) {
    for (int from = 0; from < due.size(); ) {
      int to = from;
      while (to < due.size() && due.get(to).time == due.get(from).time) {
        to++;
      }
      give(due.subList(from, to).stream().map(Placed::row).toList(), changes);
      from = to;
    }
  }

  private record Keyed(byte[] key, byte[] row) {}

  /** Rows of one time. */
  private void give(List<byte[]> peers, Changes changes) {
    if (spec.order().isEmpty() || peers.size() == 1) {
      peers.forEach(packed -> changes.insert(Packing.NOTHING, packed));
      return;
    }
    List<Keyed> keyed = new ArrayList<>();
    peers.forEach(packed -> keyed.add(new Keyed(order.of(PackedRow.point(row, packed)), packed)));
    keyed.sort(Comparator.comparing(Keyed::key, Arrays::compareUnsigned));
    keyed.forEach(each -> changes.insert(Packing.NOTHING, each.row));
  }

  @Override
  Iterator<Tuple2<byte[], byte[]>> advance() {
    return spec.time() == null
        ? java.util.Collections.emptyIterator()
        : Timer.due(timeline(), moment(), this::wake);
  }
}
