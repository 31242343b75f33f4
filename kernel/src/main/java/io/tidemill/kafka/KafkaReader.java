package io.tidemill.kafka;

import java.nio.ByteBuffer;
import java.util.Arrays;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.unsafe.types.UTF8String;

/** Reads one range of one partition into rows, as part of a Spark task. Runs per row. */
final class KafkaReader implements PartitionReader<InternalRow> {

  /** The records of a partition in [start, end). */
  record Range(String topic, int partition, long start, long end, String[] preferredLocations)
      implements InputPartition {}

  /**
   * @param run tells apart the cursors of one start of one source
   */
  record Factory(String run, SourceSpec spec, Column[] columns, int fetchBytes)
      implements PartitionReaderFactory {
    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      return new KafkaReader(this, (Range) partition);
    }
  }

  private final Factory scan;
  private final TopicPartition tp;
  private final long end;
  private final Column[] columns;
  private final UTF8String topic;
  private final UnsafeRowWriter writer;
  private Cursor cursor;
  private boolean intact = true;
  private ConsumerRecord<ByteBuffer, ByteBuffer> record;

  private KafkaReader(Factory scan, Range range) {
    this.scan = scan;
    this.tp = new TopicPartition(range.topic(), range.partition());
    this.end = range.end();
    this.columns = scan.columns();
    this.topic = UTF8String.fromString(range.topic());
    this.writer = new UnsafeRowWriter(columns.length, 64 * columns.length);
    boolean keys = Arrays.asList(columns).contains(Column.KEY);
    boolean values = Arrays.asList(columns).contains(Column.VALUE);
    this.cursor =
        Cursors.take(
            scan.run(),
            tp,
            () -> new Cursor(scan.spec(), tp, scan.fetchBytes(), keys, values));
    cursor.seek(range.start());
  }

  @Override
  public boolean next() {
    intact = false;
    record = cursor.next(end);
    intact = true;
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

  @Override
  public void close() {
    if (cursor == null) {
      return;
    }
    // A client that has thrown may be in any state; the next batch makes another one.
    if (intact) {
      Cursors.park(scan.run(), tp, cursor);
    } else {
      cursor.close();
    }
    cursor = null;
  }
}
