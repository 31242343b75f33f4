package io.tidemill.state;

import io.tidemill.time.Mark;
import java.util.Iterator;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/**
 * The first row of each key by a rowtime, of equal times the one that came first. It leaves when the watermark has
 * reached it, and is the only one that ever does. Flink: what the watermark has passed is late; what it has just reached
 * is not, and leaves when it moves next.
 *
 * <p>State: the row that waits or, once it has left, nothing but that.
 */
final class FirstByTime extends KeyedProcessor {
  private static final int DONE = 0;
  private static final int WAITS = 1;

  private final Deduplicate.DeduplicateSpec spec;
  private final StructType columns;
  private final Counts counts;

  private transient UnsafeRow row;
  private transient int time;
  private transient Timer timer;

  FirstByTime(Deduplicate.DeduplicateSpec spec, StructType columns, Counts counts) {
    super(spec.name(), false, true);
    this.spec = spec;
    this.columns = columns;
    this.counts = counts;
  }

  static Dataset<Row> plan(Dataset<Row> input, Deduplicate.DeduplicateSpec spec, Counts counts) {
    StructType keys = Packing.columns(input.schema(), spec.keys(), spec.name());
    StructType columns = Packing.columns(input.schema(), spec.columns(), spec.name());
    Dataset<Tuple2<byte[], byte[]>> pairs = Packing.number(Packing.pack(input, keys, columns));
    KeyedProcessor operator =
        new FirstByTime(spec, columns, counts).expiring(Expiry.after(spec.ttl())).timed(spec.clock(), counts, columns);
    return Packing.unpack(operator.over(pairs), new StructType(), columns);
  }

  @Override
  boolean isPaged() {
    return false;
  }

  @Override
  boolean hasTimeline() {
    return true;
  }

  @Override
  void open(Pages pages) {
    row = new UnsafeRow(columns.size());
    time = columns.fieldIndex(spec.time());
    timer = new Timer(timeline());
  }

  @Override
  long eventTime(byte[] packed) {
    return Slice.milliseconds(PackedRow.point(row, packed).getLong(time));
  }

  @Override
  boolean waits(ByteReader state) {
    return state.readByte() == WAITS;
  }

  @Override
  boolean process(byte[] key, ByteReader before, Iterator<byte[]> rows, ByteWriter after, Changes changes) {
    timer.clear();
    boolean isDone = before != null && before.readByte() == DONE;
    byte[] first = null;
    if (before != null && !isDone) {
      timer.read(before);
      first = PackedRow.withHeader(0, before.readRest());
    }
    first = earliest(first, rows);
    if (isDone) {
      after.writeByte(DONE);
      leave();
      return true;
    }
    if (first == null) {
      return false;
    }
    if (Timer.isDue(moment()) && eventTime(first) <= moment().now()) {
      timer.set(key, Mark.END, moment());
      after.writeByte(DONE);
      changes.insert(Packing.NOTHING, first);
      return true;
    }
    timer.set(key, eventTime(first), moment());
    after.writeByte(WAITS);
    timer.write(after);
    after.writeRaw(first, PackedRow.HEADER, first.length - PackedRow.HEADER);
    return true;
  }

  private byte[] earliest(byte[] known, Iterator<byte[]> rows) {
    byte[] first = known;
    while (rows.hasNext()) {
      byte[] each = rows.next();
      if (eventTime(each) < moment().before()) {
        dropLate(each);
      } else if (first == null || eventTime(each) < eventTime(first)) {
        first = each;
      }
    }
    return first;
  }

  @Override
  Iterator<Tuple2<byte[], byte[]>> advance() {
    return Timer.due(timeline(), moment(), this::wake);
  }
}
