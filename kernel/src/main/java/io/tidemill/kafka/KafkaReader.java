package io.tidemill.kafka;

import java.nio.ByteBuffer;
import java.util.Arrays;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.LongAccumulator;

/** Reads one range of one partition, as part of a Spark task. Runs per record. */
abstract class KafkaReader implements PartitionReader<InternalRow> {

  /** The records of a partition in [start, end). */
  record Range(String topic, int partition, long start, long end, String[] preferredLocations)
      implements InputPartition {}

  /**
   * @param run tells apart the cursors of one start of one source
   * @param records counts what the tasks read, which Spark cannot see in blocks
   */
  record Factory(
      String run, SourceSpec spec, Column[] columns, int fetchBytes, LongAccumulator records)
      implements PartitionReaderFactory {
    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      Range range = (Range) partition;
      return spec.blocks() ? new Blocks(this, range) : new Rows(this, range);
    }
  }

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
            () -> new Cursor(scan.spec(), tp, scan.fetchBytes(), keys, values));
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
    scan.records().add(read);
    // A client that has thrown may be in any state; the next batch makes another one.
    if (intact) {
      Cursors.park(scan.run(), tp, cursor);
    } else {
      cursor.close();
    }
    cursor = null;
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
}
