package io.tidemill.state;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.functions;
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
    StructType arguments = Aggregation.arguments(spec, schema);
    Accumulators accumulators = Aggregation.accumulators(spec, arguments);
    Column time = spec.window().slice(input);
    Dataset<Row> timed = input.where(time.isNotNull().or(counts.refuses(spec.name())));
    Column header = functions.shiftleft(time, 2).bitwiseOR(Packing.kind(input));
    MapPartitionsFunction<Tuple2<byte[], byte[]>, Tuple2<byte[], byte[]>> deltas =
        rows -> Combiner.oneByOne(spec, arguments, rows, TaskContext.getPartitionId());
    KeyedProcessor operator =
        new SessionAggregate(spec, arguments, accumulators, counts).timed(spec.clock());
    return Packing.unpack(
        operator.over(Packing.pack(timed, keys, arguments, header).mapPartitions(deltas, Packing.PAIRS)),
        keys,
        bounds(spec.window(), Aggregation.results(spec)));
  }

  @Override
  void open(boolean isAtWork) {
    super.open(isAtWork);
    pages = new HashMap<>();
    aggregation = new Aggregation(spec, arguments, counts, inMemory(pages), BOUNDS);
    part = new Aggregation(spec, arguments, counts, inMemory(pages), BOUNDS);
    in = new ByteReader();
    out = new ByteWriter(256);
    kept = paged && isAtWork ? new Kept(new Segments(newTimeline("session_rows"))) : null;
  }

  private static Pages inMemory(Map<Long, byte[]> pages) {
    return new Pages() {
      @Override
      public byte[] get(long page) {
        return pages.get(page);
      }

      @Override
      public void put(long page, byte[] content) {
        pages.put(page, content);
      }

      @Override
      public void remove(long page) {
        pages.remove(page);
      }

      @Override
      public Expiry expiry() {
        return Expiry.NEVER;
      }
    };
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
      out.reset();
      part.writeDelta(out);
      in.over(out.buffer(), 0, out.size());
      aggregation.merge(in);
    }
    if (deltas.isEmpty()) {
      return !fresh;
    }
    return aggregation.merge(deltas.iterator(), WindowAggregate.SLICE, fresh);
  }
}
