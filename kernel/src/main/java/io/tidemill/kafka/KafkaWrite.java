package io.tidemill.kafka;

import io.tidemill.files.PartFiles;
import java.io.Serializable;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** The driver's half of the sink; the records are on the broker before a task commits. */
final class KafkaWrite implements Write, StreamingWrite, BatchWrite {
  private static final Map<String, DataType> COLUMNS =
      Map.of(
          "sink", DataTypes.IntegerType,
          "topic", DataTypes.StringType,
          "partition", DataTypes.IntegerType,
          "key", DataTypes.BinaryType,
          "value", DataTypes.BinaryType,
          "headers", DataTypes.createMapType(DataTypes.StringType, DataTypes.BinaryType, true),
          "header_list",
              DataTypes.createArrayType(
                  new StructType()
                      .add("key", DataTypes.StringType)
                      .add("value", DataTypes.BinaryType)),
          "timestamp", DataTypes.TimestampType);

  /** Where in a row each column is; -1 if the query does not have it. */
  record Layout(
      int sink,
      int topic,
      int partition,
      int key,
      int value,
      int headers,
      int headerList,
      int timestamp)
      implements Serializable {

    static Layout of(StructType schema) {
      for (var field : schema.fields()) {
        DataType expected = COLUMNS.get(field.name());
        if (expected == null || !DataType.equalsStructurally(expected, field.dataType(), true)) {
          throw new IllegalArgumentException(
              "a Kafka sink takes no column '%s' of type %s"
                  .formatted(field.name(), field.dataType().sql()));
        }
      }
      if (at(schema, "value") < 0) {
        throw new IllegalArgumentException("a Kafka sink needs the column 'value'");
      }
      return new Layout(
          at(schema, "sink"),
          at(schema, "topic"),
          at(schema, "partition"),
          at(schema, "key"),
          at(schema, "value"),
          at(schema, "headers"),
          at(schema, "header_list"),
          at(schema, "timestamp"));
    }

    private static int at(StructType schema, String name) {
      return schema.getFieldIndex(name).isDefined() ? schema.fieldIndex(name) : -1;
    }
  }

  record Builder(SinkSpec spec, StructType schema, Written written) implements WriteBuilder {
    @Override
    public Write build() {
      return new KafkaWrite(spec, Layout.of(schema), written);
    }
  }

  /** Epoch 0 for a batch query. */
  private record Factory(SinkSpec spec, Layout layout)
      implements DataWriterFactory, StreamingDataWriterFactory {
    @Override
    public DataWriter<InternalRow> createWriter(int partitionId, long taskId) {
      return new KafkaWriter(spec, layout, partitionId, 0);
    }

    @Override
    public DataWriter<InternalRow> createWriter(int partitionId, long taskId, long epochId) {
      return new KafkaWriter(spec, layout, partitionId, epochId);
    }
  }

  private final SinkSpec spec;
  private final Layout layout;
  private final Written written;

  private KafkaWrite(SinkSpec spec, Layout layout, Written written) {
    this.spec = spec;
    this.layout = layout;
    this.written = written;
  }

  @Override
  public String description() {
    return "tidemill-kafka " + spec.described();
  }

  @Override
  public BatchWrite toBatch() {
    return this;
  }

  @Override
  public StreamingWrite toStreaming() {
    return this;
  }

  @Override
  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
    return new Factory(spec, layout);
  }

  @Override
  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    return new Factory(spec, layout);
  }

  /** At least once, two attempts of a task may both write. */
  @Override
  public boolean useCommitCoordinator() {
    return spec.isTransactional();
  }

  @Override
  public void commit(WriterCommitMessage[] messages) {
    Printer.print(spec, messages);
    succeed(messages);
    written.add(spec, messages);
  }

  /** Puts a file that says so into each partition of a table of files that has got rows. */
  private void succeed(WriterCommitMessage[] messages) {
    for (int i = 0; i < spec.sinks().size(); i++) {
      SinkSpec.Target target = spec.sinks().get(i);
      if (target.isFiles() && target.successFile() != null) {
        TreeSet<String> directories = new TreeSet<>();
        for (WriterCommitMessage message : messages) {
          if (message instanceof Written.Message task) {
            directories.addAll(task.lines().getOrDefault(i, List.of()));
          }
        }
        PartFiles.succeed(directories, target.table(), target.successFile());
      }
    }
  }

  @Override
  public void commit(long epochId, WriterCommitMessage[] messages) {
    commit(messages);
  }

  @Override
  public void abort(WriterCommitMessage[] messages) {}

  @Override
  public void abort(long epochId, WriterCommitMessage[] messages) {}
}
