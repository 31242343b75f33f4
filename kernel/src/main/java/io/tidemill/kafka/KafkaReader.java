package io.tidemill.kafka;

import io.tidemill.decode.Decoder;
import io.tidemill.decode.Unsure;
import io.tidemill.time.Mark;
import io.tidemill.time.Times;
import io.tidemill.time.TaskClock;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.NoSuchElementException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.CollectionAccumulator;
import org.apache.spark.util.LongAccumulator;
import org.apache.spark.util.TaskCompletionListener;
import scala.collection.Iterator;

/** Reads one range of one partition, as part of a Spark task. Runs per record. */
abstract class KafkaReader implements PartitionReader<InternalRow> {

  /**
   * The records of a partition in [start, end).
   *
   * @param ends whether nothing comes after them
   * @param marks what there is to say about partitions that have nothing to read
   */
  record Range(
      String topic,
      int partition,
      long start,
      long end,
      String[] preferredLocations,
      boolean ends,
      List<Mark> marks)
      implements InputPartition {
    boolean isEmpty() {
      return start == end;
    }

    Range telling(List<Mark> said) {
      return new Range(topic, partition, start, end, preferredLocations, ends, said);
    }
  }

  /**
   * @param run tells apart the cursors of one start of one source
   * @param python decodes what the kernel leaves; null where it decodes nothing
   */
  record Factory(
      String run,
      SourceSpec spec,
      Column[] columns,
      MapInBatchEvaluatorFactory python,
      Counts counts)
      implements PartitionReaderFactory {
    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      Range range = (Range) partition;
      if (spec.clock() != null) {
        tellTime(range);
      }
      if (range.isEmpty()) {
        return new Nothing();
      }
      if (spec.decoding() != null) {
        return new Decoded(this, range);
      }
      return spec.blocks() ? new Blocks(this, range) : new Rows(this, range);
    }

    private void tellTime(Range range) {
      TaskClock clock = TaskClock.current();
      if (!range.isEmpty()) {
        clock.reads(spec.clock().of(range.topic(), range.partition()), range.ends(), counts.times());
        clock.comesFrom(range.topic(), range.partition());
      }
      range.marks().forEach(clock::tell);
    }
  }

  /**
   * What the tasks of a source have done so far.
   *
   * @param read records, which Spark cannot see where a row is a block of them, or not a record
   * @param python records that the kernel has left to Python
   * @param said what they have to tell the user
   * @param times how far event time has come on each channel
   */
  record Counts(
      LongAccumulator read,
      LongAccumulator python,
      CollectionAccumulator<String> said,
      Times times)
      implements Serializable {}

  private final Factory scan;
  private final TopicPartition tp;
  private final long end;
  private Cursor cursor;
  private boolean intact = true;
  private long read;

  private KafkaReader(Factory scan, Range range) {
    this.scan = scan;
    this.tp = new TopicPartition(range.topic(), range.partition());
    this.end = range.end();
    boolean keys = Arrays.asList(scan.columns()).contains(Column.KEY);
    boolean values = Arrays.asList(scan.columns()).contains(Column.VALUE);
    this.cursor =
        Cursors.take(
            scan.run(),
            tp,
            () -> new Cursor(scan.spec(), tp, keys, values));
    cursor.seek(range.start());
  }

  /** The next record of the range, or null at its end. */
  final ConsumerRecord<ByteBuffer, ByteBuffer> nextRecord() {
    intact = false;
    ConsumerRecord<ByteBuffer, ByteBuffer> record = cursor.next(end);
    intact = true;
    if (record != null) {
      read++;
    }
    return record;
  }

  @Override
  public void close() {
    if (cursor == null) {
      return;
    }
    scan.counts().read().add(read);
    cursor.takeNotices().forEach(scan.counts().said()::add);
    // A client that has thrown may be in any state; the next batch makes another one.
    if (intact) {
      Cursors.park(scan.run(), tp, cursor);
    } else {
      cursor.close();
    }
    cursor = null;
  }

  /** What an empty range has: no rows, and no need of a client. */
  private static final class Nothing implements PartitionReader<InternalRow> {
    @Override
    public boolean next() {
      return false;
    }

    @Override
    public InternalRow get() {
      throw new NoSuchElementException();
    }

    @Override
    public void close() {}
  }

  /** A row for each record. */
  private static final class Rows extends KafkaReader {
    private final Column[] columns;
    private final UTF8String topic;
    private final UnsafeRowWriter writer;
    private ConsumerRecord<ByteBuffer, ByteBuffer> record;

    Rows(Factory scan, Range range) {
      super(scan, range);
      this.columns = scan.columns();
      this.topic = UTF8String.fromString(range.topic());
      this.writer = new UnsafeRowWriter(columns.length, 64 * columns.length);
    }

    @Override
    public boolean next() {
      record = nextRecord();
      return record != null;
    }

    @Override
    public InternalRow get() {
      writer.reset();
      writer.zeroOutNullBytes();
      for (int i = 0; i < columns.length; i++) {
        columns[i].write(writer, i, record, topic);
      }
      return writer.getRow();
    }
  }

  /** A row for each {@link Block}. */
  private static final class Blocks extends KafkaReader {
    private final Block block;

    Blocks(Factory scan, Range range) {
      super(scan, range);
      this.block = new Block(scan.columns(), UTF8String.fromString(range.topic()));
    }

    @Override
    public boolean next() {
      ConsumerRecord<ByteBuffer, ByteBuffer> record;
      while (!block.isFull() && (record = nextRecord()) != null) {
        block.add(record);
      }
      return block.rows() > 0;
    }

    @Override
    public InternalRow get() {
      return new GenericInternalRow(new Object[] {block.take()});
    }

    @Override
    public void close() {
      super.close();
      block.close();
    }
  }

  /**
   * The table's rows. What the kernel is not sure of goes to Python with the records that follow,
   * because to start a run there costs as much as some thousand records; where that happens again
   * and again, with more of them each time.
   */
  private static final class Decoded extends KafkaReader {
    private static final int LEAST = 8192;
    private static final int MOST = 1 << 24;
    private static final byte UPSERTED = 2;
    private static final byte DELETED = 3;

    private final Factory scan;
    private final UTF8String topic;
    private final Decoder value;
    private final Decoder key;
    private final Decoding.Upsert upsert;
    private final Column[] kept;
    private final int[] keptAt;
    private final int[] nulls;

    /** Places that a delete leaves NULL. */
    private final int[] absent;

    private final UnsafeRowWriter[] rows = new UnsafeRowWriter[2];
    private final UnsafeRowWriter[] one = new UnsafeRowWriter[1];

    /** For keys that are looked at, and whose columns come from the value. */
    private final UnsafeRowWriter aside;

    private byte[] copy = new byte[0];

    private InternalRow row;

    /** A second row of the last record. */
    private boolean another;

    private Iterator<InternalRow> python;
    private int stretch = LEAST;
    private long sure;

    Decoded(Factory scan, Range range) {
      super(scan, range);
      Decoding decoding = scan.spec().decoding();
      this.scan = scan;
      this.topic = UTF8String.fromString(range.topic());
      this.value = Decoder.of(decoding.value());
      this.key = decoding.key() == null ? null : Decoder.of(decoding.key());
      this.upsert = decoding.upsert();
      this.kept =
          decoding.kept().stream().map(k -> Column.of(k.column())).toArray(Column[]::new);
      this.keptAt = decoding.kept().stream().mapToInt(Decoding.Kept::at).toArray();
      this.nulls = decoding.nulls().stream().mapToInt(Integer::intValue).toArray();
      this.absent =
          upsert == null
              ? new int[0]
              : upsert.values().stream().mapToInt(Integer::intValue).toArray();
      int width = decoding.type().size();
      for (int i = 0; i < rows.length; i++) {
        rows[i] = new UnsafeRowWriter(width, 32 * width);
      }
      this.aside = new UnsafeRowWriter(width, 32 * width);
    }

    @Override
    public boolean next() {
      if (another) {
        another = false;
        row = rows[1].getRow();
        return true;
      }
      while (true) {
        if (python != null) {
          if (python.hasNext()) {
            row = python.next();
            return true;
          }
          python = null;
        }
        ConsumerRecord<ByteBuffer, ByteBuffer> record = nextRecord();
        if (record == null) {
          return false;
        }
        try {
          int found = decode(record);
          row = rows[found == 2 ? 1 : 0].getRow();
          another = found == 3;
          sure++;
          return true;
        } catch (Unsure e) {
          ask(record);
        }
      }
    }

    @Override
    public InternalRow get() {
      return row;
    }

    private int decode(ConsumerRecord<ByteBuffer, ByteBuffer> record) {
      for (UnsafeRowWriter writer : rows) {
        reset(writer);
      }
      boolean deleted = upsert != null && record.value() == null;
      int found = deleted ? 1 : decode(value, record.value(), rows);
      if (upsert != null) {
        rows[0].write(upsert.kind(), deleted ? DELETED : UPSERTED);
      }
      if (deleted) {
        for (int at : absent) {
          rows[0].setNullAt(at);
        }
      }
      boolean told = upsert != null && upsert.shared() && !deleted;
      for (int i = 0; i < rows.length; i++) {
        if ((found & 1 << i) == 0) {
          continue;
        }
        if (key != null) {
          one[0] = told ? reset(aside) : rows[i];
          decode(key, record.key(), one);
        }
        for (int k = 0; k < kept.length; k++) {
          kept[k].write(rows[i], keptAt[k], record, topic);
        }
        for (int at : nulls) {
          rows[i].setNullAt(at);
        }
      }
      return found;
    }

    private static UnsafeRowWriter reset(UnsafeRowWriter writer) {
      writer.reset();
      writer.zeroOutNullBytes();
      return writer;
    }

    private int decode(Decoder decoder, ByteBuffer bytes, UnsafeRowWriter[] into) {
      if (bytes == null) {
        throw Unsure.now();
      }
      int length = bytes.remaining();
      if (bytes.hasArray()) {
        int from = bytes.arrayOffset() + bytes.position();
        return decoder.read(bytes.array(), from, from + length, into);
      }
      if (copy.length < length) {
        copy = new byte[2 * length];
      }
      bytes.duplicate().get(copy, 0, length);
      return decoder.read(copy, 0, length, into);
    }

    /** Has Python read this record and the next ones. */
    private void ask(ConsumerRecord<ByteBuffer, ByteBuffer> first) {
      stretch = sure < stretch ? Math.min(2 * stretch, MOST) : LEAST;
      sure = 0;
      python =
          PythonDecoder.decode(
              scan.python(), TaskContext.getPartitionId(), new Stretch(this, first, stretch));
    }
  }

  /** A record, and some that follow it, as blocks. */
  private static final class Stretch implements java.util.Iterator<InternalRow> {
    private final Decoded reader;
    private final Block block;
    private ConsumerRecord<ByteBuffer, ByteBuffer> ahead;
    private int left;
    private boolean closed;

    Stretch(Decoded reader, ConsumerRecord<ByteBuffer, ByteBuffer> first, int records) {
      this.reader = reader;
      this.block = new Block(reader.scan.columns(), reader.topic);
      this.ahead = first;
      this.left = records;
      // A task may fail in the middle.
      TaskContext.get().addTaskCompletionListener((TaskCompletionListener) ended -> close());
    }

    private void close() {
      if (!closed) {
        closed = true;
        block.close();
      }
    }

    @Override
    public boolean hasNext() {
      return ahead != null;
    }

    @Override
    public InternalRow next() {
      while (ahead != null && !block.isFull()) {
        block.add(ahead);
        reader.scan.counts().python().add(1);
        ahead = --left > 0 ? reader.nextRecord() : null;
      }
      InternalRow packed = new GenericInternalRow(new Object[] {block.take()});
      if (ahead == null) {
        close();
      }
      return packed;
    }
  }
}
