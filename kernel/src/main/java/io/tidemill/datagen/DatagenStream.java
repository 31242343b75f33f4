package io.tidemill.datagen;

import io.tidemill.Lifecycle;
import io.tidemill.time.Mark;
import io.tidemill.time.TaskClock;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;

/**
 * Numbers as they fall due. The clock starts with the first question of a run, at the offset where
 * the last run ended: time in which no query ran owes nothing.
 */
final class DatagenStream implements MicroBatchStream, SupportsTriggerAvailableNow {
  // A query that cannot keep up falls behind by this much and no more, as one held up by
  // back-pressure does in Flink; without it every batch would be longer than the one before.
  private static final long MOST_SECONDS_PER_BATCH = 10;

  /** How many numbers have been given out: a plain number, as text. */
  private static final class Count extends Offset {
    private final long rows;

    Count(long rows) {
      this.rows = rows;
    }

    @Override
    public String json() {
      return Long.toString(rows);
    }
  }

  private record Range(int part, long start, long end, boolean ends) implements InputPartition {}

  private record Factory(DatagenProvider.Spec spec) implements PartitionReaderFactory {
    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      Range range = (Range) partition;
      if (spec.channel() != null) {
        tellTime(range);
      }
      return new Reader(range);
    }

    private void tellTime(Range range) {
      TaskClock clock = TaskClock.current();
      clock.reads(spec.channel() + "/" + range.part(), range.ends(), null);
      if (range.ends()) {
        // Also for those that have had nothing to give in the last batch.
        for (int part = 0; part < spec.partitions(); part++) {
          clock.tell(new Mark(spec.channel() + "/" + part, Mark.END, false));
        }
      }
    }
  }

  private static final class Reader implements PartitionReader<InternalRow> {
    private final UnsafeRowWriter writer = new UnsafeRowWriter(1);
    private final long end;
    private long next;

    Reader(Range range) {
      this.next = range.start() - 1;
      this.end = range.end();
    }

    @Override
    public boolean next() {
      return ++next < end;
    }

    @Override
    public InternalRow get() {
      writer.reset();
      writer.zeroOutNullBytes();
      writer.write(0, next);
      return writer.getRow();
    }

    @Override
    public void close() {}
  }

  private final DatagenProvider.Spec spec;
  private final String metadataPath;
  private final long end;
  private boolean availableNow;
  private boolean started;
  private long startNanos;
  private long startRows;

  DatagenStream(DatagenProvider.Spec spec, String metadataPath) {
    this.spec = spec;
    this.metadataPath = metadataPath;
    Lifecycle.open(metadataPath);
    this.end = spec.numberOfRows() == null ? Long.MAX_VALUE : spec.numberOfRows();
  }

  @Override
  public Offset initialOffset() {
    return new Count(0);
  }

  @Override
  public Offset deserializeOffset(String json) {
    return new Count(Long.parseLong(json));
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    availableNow = true;
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("Spark asks with a limit");
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    long from = ((Count) start).rows;
    if (Lifecycle.mustDrain(metadataPath)) {
      return start;
    }
    if (availableNow && spec.numberOfRows() == null) {
      // Without an end, "now" is the start, where nothing is due yet.
      return start;
    }
    long due = due(from);
    while (availableNow && due == from && from < end) {
      try {
        // "No news" would end the job before its last row.
        Thread.sleep(Math.min(100, Math.max(1, 1000 / spec.rowsPerSecond())));
      } catch (InterruptedException e) {
        throw sneaky(e);
      }
      if (Lifecycle.mustDrain(metadataPath)) {
        return start;
      }
      due = due(from);
    }
    return new Count(due);
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    long from = ((Count) start).rows;
    long rows = ((Count) end).rows - from;
    int parts = (int) Math.min(spec.partitions(), rows);
    InputPartition[] ranges = new InputPartition[parts];
    for (int i = 0; i < parts; i++) {
      boolean ends = ((Count) end).rows == this.end;
      ranges[i] = new Range(i, from + rows * i / parts, from + rows * (i + 1) / parts, ends);
    }
    return ranges;
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new Factory(spec);
  }

  @Override
  public void commit(Offset end) {}

  @Override
  public void stop() {}

  @Override
  public String toString() {
    return "tidemill-datagen[" + spec.table() + "]";
  }

  private long due(long from) {
    long now = System.nanoTime();
    if (!started) {
      started = true;
      startNanos = now;
      startRows = from;
    }
    if (spec.isAtOnce()) {
      Long most = spec.maxRowsPerBatch();
      return most == null ? end : Math.min(end, from + most);
    }
    double elapsed = (now - startNanos) / 1e9;
    long due = startRows + (long) (elapsed * spec.rowsPerSecond());
    long most = spec.rowsPerSecond() * MOST_SECONDS_PER_BATCH;
    if (spec.maxRowsPerBatch() != null) {
      most = Math.min(most, spec.maxRowsPerBatch());
    }
    if (due - from > most) {
      due = from + most;
      startNanos = now;
      startRows = due;
    }
    return Math.min(due, end);
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> RuntimeException sneaky(Throwable e) throws E {
    throw (E) e;
  }
}
