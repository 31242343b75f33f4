package io.tidemill.kafka;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.util.List;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Some records of one partition as an Arrow stream of one batch, in one array of bytes.
 *
 * <p>A row per record on its way to a Python worker is copied three times, value by value. A block
 * is one value of one row: the way costs next to nothing per record, and Python reads it in place.
 */
final class Block implements AutoCloseable {
  /** What a scan of blocks gives instead of the columns. */
  static final StructType SCHEMA =
      new StructType(
          new StructField[] {
            new StructField("block", DataTypes.BinaryType, false, Metadata.empty())
          });

  private static final int ROWS = 8192;
  private static final int BYTES = 1 << 20;

  private final Column[] columns;
  private final UTF8String topic;
  private final BufferAllocator allocator;
  private final VectorSchemaRoot root;
  private final FieldVector[] vectors;
  private int rows;
  private long bytes;
  private int written = BYTES / 4;

  Block(Column[] columns, UTF8String topic) {
    this.columns = columns;
    this.topic = topic;
    this.allocator = ArrowUtils.rootAllocator().newChildAllocator("block", 0, Long.MAX_VALUE);
    this.root =
        VectorSchemaRoot.create(
            ArrowUtils.toArrowSchema(Column.schema(columns), "UTC", false), allocator);
    List<FieldVector> made = root.getFieldVectors();
    this.vectors = made.toArray(new FieldVector[0]);
  }

  boolean isFull() {
    return rows >= ROWS || bytes >= BYTES;
  }

  int rows() {
    return rows;
  }

  void add(ConsumerRecord<ByteBuffer, ByteBuffer> record) {
    for (int i = 0; i < columns.length; i++) {
      columns[i].set(vectors[i], rows, record, topic);
    }
    rows++;
    bytes += Math.max(0, record.serializedKeySize()) + Math.max(0, record.serializedValueSize());
  }

  /** What was added since the last call. */
  byte[] take() {
    root.setRowCount(rows);
    ByteArrayOutputStream stream = new ByteArrayOutputStream(written + written / 8);
    try (ArrowStreamWriter writer =
        new ArrowStreamWriter(root, null, Channels.newChannel(stream))) {
      writer.writeBatch();
      writer.end();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    for (FieldVector vector : vectors) {
      vector.reset();
    }
    rows = 0;
    bytes = 0;
    written = stream.size();
    return stream.toByteArray();
  }

  @Override
  public void close() {
    root.close();
    allocator.close();
  }
}
