package io.tidemill.kafka;

import io.tidemill.time.Times;
import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.ReportsSinkMetrics;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A Kafka table as Spark sees it. Its text goes into plans, so there are no properties in it. */
final class KafkaTable implements SupportsRead, SupportsWrite, ReportsSinkMetrics {
  private final SourceSpec source;
  private final SinkSpec sink;
  private final Written written = new Written();

  private KafkaTable(SourceSpec source, SinkSpec sink) {
    this.source = source;
    this.sink = sink;
  }

  static KafkaTable of(String spec) {
    if (spec == null) {
      throw new IllegalArgumentException("tidemill-kafka needs the option 'spec'");
    }
    return Json.has(spec, "sinks")
        ? new KafkaTable(null, Json.read(spec, SinkSpec.class))
        : new KafkaTable(Json.read(spec, SourceSpec.class), null);
  }

  @Override
  public String name() {
    return "tidemill-kafka[" + (source != null ? source.table() : sink.described()) + "]";
  }

  /** Deprecated for columns(), which Spark derives from it all the same. */
  @Override
  @SuppressWarnings("deprecation")
  public StructType schema() {
    return source != null
        ? schema(source, Column.of(source.columns()))
        : Column.schema(new Column[0]);
  }

  @Override
  public Set<TableCapability> capabilities() {
    return source != null
        ? Set.of(TableCapability.MICRO_BATCH_READ)
        : Set.of(
            TableCapability.BATCH_WRITE,
            TableCapability.STREAMING_WRITE,
            TableCapability.ACCEPT_ANY_SCHEMA);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new Builder(source);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new KafkaWrite.Builder(sink, info.schema(), written);
  }

  @Override
  public Map<String, String> metrics() {
    return written.metrics();
  }

  @Override
  public String toString() {
    return name();
  }

  private static StructType schema(SourceSpec source, Column[] columns) {
    if (source.decoding() != null) {
      return source.decoding().type();
    }
    return source.blocks() ? Block.SCHEMA : Column.schema(columns);
  }

  private static final class Builder implements SupportsPushDownRequiredColumns {
    private final SourceSpec spec;
    private Column[] columns;

    Builder(SourceSpec spec) {
      this.spec = spec;
      this.columns = Column.of(spec.columns());
    }

    @Override
    public void pruneColumns(StructType required) {
      if (!spec.blocks() && spec.decoding() == null) {
        columns = Column.of(Arrays.asList(required.fieldNames()));
      }
    }

    @Override
    public Scan build() {
      return new KafkaScan(spec, columns);
    }
  }

  private record KafkaScan(SourceSpec spec, Column[] columns) implements Scan {
    @Override
    public StructType readSchema() {
      return schema(spec, columns);
    }

    @Override
    public String description() {
      return "tidemill-kafka " + spec.table() + " (" + spec.described() + ")";
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
      SparkSession session = SparkSession.active();
      Decoding decoding = spec.decoding();
      Times times = new Times();
      session.sparkContext().register(times);
      return new KafkaStream(
          spec,
          columns,
          checkpointLocation,
          session.sessionState().newHadoopConf(),
          decoding == null
              ? null
              : PythonDecoder.factory(session, decoding.python(), decoding.type()),
          new KafkaReader.Counts(
              session.sparkContext().longAccumulator(),
              session.sparkContext().longAccumulator(),
              session.sparkContext().collectionAccumulator(),
              times));
    }
  }
}
