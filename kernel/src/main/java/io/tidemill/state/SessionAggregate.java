package io.tidemill.state;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/**
 * The aggregate of sessions: columns → packed (key, arguments) → packed (key, delta of a row) → shuffle by key →
 * {@link Sessions} → packed (key, session and result) → columns.
 *
 * <p>Of a session its accumulators are kept. Those that may be large cannot be put together with others: where there are
 * any, the deltas themselves are kept, in {@link Segments}, and put together when the session closes.
 */
final class SessionAggregate extends Sessions {
  /** Of a session of which no row is left: it lasts all the same. */
  private static final byte[] EMPTY = {};

  private final AggregateSpec spec;
  private final StructType arguments;
  private final boolean paged;

  private transient Aggregation aggregation;
  private transient Aggregation part;
  private transient ByteReader in;
  private transient ByteWriter out;
  private transient Kept kept;
  private transient Map<Long, byte[]> pages;

  private SessionAggregate(AggregateSpec spec, StructType arguments, Accumulators accumulators, Counts counts) {
    super(spec.name(), spec.window(), counts);
    this.spec = spec;
    this.arguments = arguments;
    this.paged = !accumulators.paged.isEmpty();
  }

  static Dataset<Row> plan(Dataset<Row> input, AggregateSpec spec, Counts counts) {
    StructType schema = input.schema();
    StructType keys = Packing.columns(schema, spec.keys(), spec.name());
    StructType arguments = arguments(spec, schema);
    Accumulators accumulators = Aggregation.accumulators(spec, arguments);
    MapPartitionsFunction<Tuple2<byte[], byte[]>, Tuple2<byte[], byte[]>> deltas =
        rows -> Combiner.oneByOne(spec, arguments, rows, TaskContext.getPartitionId());
    KeyedProcessor operator =
        new SessionAggregate(spec, arguments, accumulators, counts).timed(spec.clock(), counts, arguments);
    return Packing.unpack(
        operator.over(sliced(input, spec, keys, arguments, counts).mapPartitions(deltas, Packing.PAIRS)),
        keys,
        bounds(spec.window(), Aggregation.results(spec)));
  }

  @Override
  boolean takesDeltas() {
    return true;
  }

  @Override
  long eventTime(byte[] row) {
    return eventTime(row, arguments);
  }

  @Override
  void open(boolean isAtWork) {
    super.open(isAtWork);
    pages = new HashMap<>();
    aggregation = new Aggregation(spec, arguments, counts, Pages.in(pages), BOUNDS);
    part = new Aggregation(spec, arguments, counts, Pages.in(pages), BOUNDS);
    in = new ByteReader();
    out = new ByteWriter(256);
    kept = paged && isAtWork ? new Kept(new Segments(newTimeline("session_rows"))) : null;
  }

  @Override
  long time(byte[] delta) {
    in.over(delta, PackedRow.HEADER, Long.BYTES);
    return in.readFixed64();
  }

  @Override
  byte[] keep(byte[] key, Session session) {
    if (paged) {
      return kept.keep(key, session, this);
    }
    if (!aggregate(session.kept, session.rows)) {
      return EMPTY;
    }
    out.reset();
    aggregation.write(out);
    return out.toBytes();
  }

  @Override
  void close(byte[] key, Session session, Changes changes) {
    boolean there =
        paged ? aggregate(List.of(), kept.take(key, session)) : aggregate(session.kept, session.rows);
    if (there) {
      long end = session.end;
      changes.insert(key, aggregation.result(1000 * session.start, 1000 * end, 1000 * window.time(end)));
      aggregation.countOverflows();
    }
    pages.clear();
  }

  /** Whether there are rows. */
  private boolean aggregate(List<byte[]> states, List<byte[]> deltas) {
    aggregation.clear();
    boolean fresh = true;
    for (byte[] state : states) {
      if (state.length == 0) {
        continue;
      }
      in.over(state);
      if (fresh) {
        aggregation.read(in);
        fresh = false;
        continue;
      }
      part.read(in);
      aggregation.merge(part);
    }
    if (deltas.isEmpty()) {
      return !fresh;
    }
    return aggregation.merge(deltas.iterator(), WindowAggregate.SLICE, fresh);
  }
}
