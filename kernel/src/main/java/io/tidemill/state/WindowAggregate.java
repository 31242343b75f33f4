package io.tidemill.state;

import io.tidemill.time.Mark;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.PriorityQueue;
import java.util.TreeMap;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/**
 * The aggregate of windows of equal size: columns → packed (key, arguments) → {@link Combiner} → packed (key, delta of a
 * slice) → shuffle by key → timeline of (slice, key) → packed (key, window and result) → columns.
 *
 * <p>Laws: a row is read and written once, in its slice, however many windows it is in. A window that opens and closes
 * within a batch leaves no trace in state, where it has slices for itself. Closing a window reads its slices and nothing
 * else.
 */
final class WindowAggregate extends WindowProcessor {
  /** What comes before a delta: the end of its slice, and how many rows it stands for. */
  static final int SLICE = 2 * Long.BYTES;

  private final AggregateSpec spec;
  private final StructType arguments;
  private final boolean paged;

  private transient Aggregation aggregation;
  private transient Aggregation slice;
  private transient ByteReader in;
  private transient ByteWriter out;
  private transient Timeline pageLine;
  private transient long pageTime;
  private transient byte[] pageKey;

  private WindowAggregate(AggregateSpec spec, StructType arguments, Accumulators accumulators, Counts counts) {
    super(spec.name(), accumulators.isOrdered(), spec.window(), counts);
    this.spec = spec;
    this.arguments = arguments;
    this.paged = !accumulators.paged.isEmpty();
    if (paged && !window.isTumbling()) {
      throw new IllegalArgumentException(spec.name() + ": slices whose state has pages cannot be shared");
    }
  }

  static Dataset<Row> plan(Dataset<Row> input, AggregateSpec spec, Counts counts) {
    StructType schema = input.schema();
    StructType keys = Packing.columns(schema, spec.keys(), spec.name());
    StructType arguments = arguments(spec, schema);
    Accumulators accumulators = Aggregation.accumulators(spec, arguments);
    Dataset<Tuple2<byte[], byte[]>> deltas =
        sliced(input, spec, keys, arguments, counts).mapPartitions(combine(spec, arguments), Packing.PAIRS);
    KeyedProcessor operator =
        new WindowAggregate(spec, arguments, accumulators, counts).timed(spec.clock(), counts, arguments);
    return Packing.unpack(operator.over(deltas), keys, bounds(spec.window(), Aggregation.results(spec)));
  }

  private static MapPartitionsFunction<Tuple2<byte[], byte[]>, Tuple2<byte[], byte[]>> combine(
      AggregateSpec spec, StructType arguments) {
    return TimeSpec.hasLetters(spec.clock())
        ? rows -> Combiner.oneByOne(spec, arguments, rows, TaskContext.getPartitionId())
        : rows -> new Combiner(spec, arguments, rows, TaskContext.getPartitionId(), true);
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
    Pages pages = pages();
    aggregation = new Aggregation(spec, arguments, counts, pages, BOUNDS);
    slice = new Aggregation(spec, arguments, counts, pages, BOUNDS);
    in = new ByteReader();
    out = new ByteWriter(256);
    pageLine = paged && isAtWork ? newTimeline("slice_pages") : null;
  }

  /** The pages of the slice and key at hand. */
  private Pages pages() {
    return new Pages() {
      private byte[] numbered(long page) {
        ByteWriter key = new ByteWriter(pageKey.length + Long.BYTES);
        key.writeRaw(pageKey, 0, pageKey.length);
        key.writeFixed64(page);
        return key.toBytes();
      }

      @Override
      public byte[] get(long page) {
        return pageLine.get(pageTime, numbered(page));
      }

      @Override
      public void put(long page, byte[] content) {
        pageLine.put(pageTime, numbered(page), content);
      }

      @Override
      public void remove(long page) {
        pageLine.remove(pageTime, numbered(page));
      }

      @Override
      public Expiry expiry() {
        return Expiry.NEVER;
      }
    };
  }

  @Override
  boolean process(byte[] key, ByteReader none, Iterator<byte[]> deltas, ByteWriter after, Changes changes) {
    byte[] first = deltas.next();
    if (!deltas.hasNext()) {
      take(key, end(first), List.of(first), changes);
      return false;
    }
    TreeMap<Long, List<byte[]>> slices = new TreeMap<>();
    slices.computeIfAbsent(end(first), s -> new ArrayList<>()).add(first);
    deltas.forEachRemaining(delta -> slices.computeIfAbsent(end(delta), s -> new ArrayList<>()).add(delta));
    slices.forEach((end, all) -> take(key, end, all, changes));
    return false;
  }

  private long end(byte[] delta) {
    in.over(delta, PackedRow.HEADER, Long.BYTES);
    return in.readFixed64();
  }

  /** Takes the deltas of one slice. */
  private void take(byte[] key, long end, List<byte[]> deltas, Changes changes) {
    if (isClosed(window.last(end), before())) {
      for (byte[] delta : deltas) {
        in.over(delta, PackedRow.HEADER + Long.BYTES, Long.BYTES);
        dropLate(delta, in.readFixed64());
      }
      return;
    }
    // What has grown already keeps its rows in its first slice.
    long at = window.cumulative() && isClosed(end, before()) ? window.firstSlice(end) : end;
    pageTime = at;
    pageKey = key;
    // Rows of several steps may have come to what has grown, in this batch, too.
    byte[] known = at == end ? known(timeline(), at, key) : timeline().get(at, key);
    read(aggregation, known);
    boolean there = aggregation.merge(deltas.iterator(), SLICE, known == null);
    boolean closes = there && window.isTumbling() && isClosed(at, now());
    if (closes) {
      changes.insert(key, result(at));
      if (paged) {
        aggregation.drop();
      }
    }
    if (there && !closes) {
      write(aggregation, at, key, known == null);
    } else if (known != null) {
      timeline().take(at, key);
    }
  }

  private void read(Aggregation into, byte[] known) {
    if (known == null) {
      into.clear();
    } else {
      in.over(known);
      checkVersion(in);
      into.read(in);
    }
  }

  private void write(Aggregation from, long at, byte[] key, boolean isNew) {
    out.reset();
    out.writeByte(VERSION);
    from.write(out);
    timeline().put(at, key, out.toBytes(), isNew);
  }

  private byte[] result(long end) {
    byte[] row =
        aggregation.result(1000 * window.start(end), 1000 * end, 1000 * window.time(end));
    aggregation.countOverflows();
    return PackedRow.setHeader(row, Header.INSERT);
  }

  @Override
  Iterator<Tuple2<byte[], byte[]>> advance() {
    if (window.isTumbling()) {
      return due(entry -> Collections.singleton(close(entry)).iterator());
    }
    return now() == Mark.NONE ? Collections.emptyIterator() : new Overlapping();
  }

  /** A window that has one slice. */
  private Tuple2<byte[], byte[]> close(Timeline.Entry entry) {
    pageTime = entry.time();
    pageKey = entry.key();
    read(aggregation, entry.value());
    Tuple2<byte[], byte[]> closed = new Tuple2<>(entry.key(), result(entry.time()));
    if (paged) {
      aggregation.drop();
    }
    timeline().take(entry.time(), entry.key());
    return closed;
  }

  /** One window after the other; each is the slices that it consists of, side by side, key by key. */
  private final class Overlapping implements Iterator<Tuple2<byte[], byte[]>> {
    private long end;
    private final PriorityQueue<Part> parts = new PriorityQueue<>();
    private Tuple2<byte[], byte[]> next;

    Overlapping() {
      end = firstEnd(window.openFrom(before()), Long.MIN_VALUE);
      if (end != Mark.END) {
        openWindow();
      }
      move();
    }

    @Override
    public boolean hasNext() {
      return next != null;
    }

    @Override
    public Tuple2<byte[], byte[]> next() {
      Tuple2<byte[], byte[]> given = next;
      move();
      return given;
    }

    /** The end of the first window that has rows and is due, among those that were not yet; or END. */
    private long firstEnd(long from, long least) {
      long candidate;
      try (Timeline.Entries entries = timeline().entries(from, Mark.END)) {
        if (!entries.hasNext()) {
          return Mark.END;
        }
        candidate = entries.next().time();
      }
      while (candidate < least || isClosed(candidate, before())) {
        candidate += window.step();
      }
      if (isClosed(candidate, now())) {
        return candidate;
      }
      waitFor(candidate);
      return Mark.END;
    }

    private void openWindow() {
      for (long at = window.firstSlice(end); at <= end; at += window.step()) {
        Part part = new Part(timeline().entries(at, at + 1));
        if (part.move()) {
          parts.add(part);
        }
      }
    }

    private void move() {
      next = null;
      while (end != Mark.END) {
        if (!parts.isEmpty()) {
          next = nextKey();
          return;
        }
        long after = end + window.step();
        end = firstEnd(window.firstSlice(after), after);
        if (end != Mark.END) {
          openWindow();
        }
      }
    }

    /** Merges the slices of one key. */
    private Tuple2<byte[], byte[]> nextKey() {
      byte[] key = parts.peek().entry.key();
      aggregation.clear();
      long first = window.firstSlice(end);
      boolean grown = false;
      boolean begun = false;
      while (!parts.isEmpty() && Arrays.equals(parts.peek().entry.key(), key)) {
        Part part = parts.poll();
        read(slice, part.entry.value());
        aggregation.merge(slice);
        long at = part.entry.time();
        begun = begun || at == first;
        if (window.last(at) <= end) {
          timeline().take(at, key);
        } else if (window.cumulative() && at != first) {
          timeline().take(at, key);
          grown = true;
        }
        if (part.move()) {
          parts.add(part);
        }
      }
      if (grown) {
        write(aggregation, first, key, !begun);
      }
      return new Tuple2<>(key, result(end));
    }
  }

  /** A slice, entry by entry. */
  private static final class Part implements Comparable<Part> {
    private final Timeline.Entries entries;
    private Timeline.Entry entry;

    Part(Timeline.Entries entries) {
      this.entries = entries;
    }

    boolean move() {
      entry = entries.hasNext() ? entries.next() : null;
      return entry != null;
    }

    @Override
    public int compareTo(Part other) {
      int byKey = Timeline.compare(entry.key(), other.entry.key());
      return byKey != 0 ? byKey : Long.compare(entry.time(), other.entry.time());
    }
  }
}
