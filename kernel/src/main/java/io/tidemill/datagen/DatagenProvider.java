package io.tidemill.datagen;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.Serializable;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The data source {@code tidemill-datagen}: the numbers 0, 1, 2 … in a column {@code id}, at a
 * given rate. What a table's fields make of a number is the planner's business; equal numbers give
 * equal rows, so a batch that is run again is the same batch.
 */
public final class DatagenProvider implements TableProvider, DataSourceRegister {
  private static final ObjectMapper JSON = new ObjectMapper();
  static final StructType SCHEMA = new StructType().add("id", DataTypes.LongType, false);

  /**
   * @param numberOfRows null for no end
   * @param table whose rows these are, for messages
   * @param partitions into how many tasks a batch is split, 2 if null
   * @param channel the name under which tasks tell their event time; null if nobody asks
   */
  record Spec(
      String table,
      long rowsPerSecond,
      Long numberOfRows,
      Integer partitions,
      Long maxRowsPerBatch,
      String channel)
      implements Serializable {
    /** A rate that holds nothing up: rows are there from the beginning. */
    private static final long AT_ONCE = 1_000_000_000;

    Spec {
      partitions = partitions == null ? 2 : partitions;
      if (rowsPerSecond <= 0 || partitions <= 0) {
        throw new IllegalArgumentException("rowsPerSecond and partitions must be positive");
      }
    }

    boolean isAtOnce() {
      return rowsPerSecond >= AT_ONCE && numberOfRows != null;
    }
  }

  @Override
  public String shortName() {
    return "tidemill-datagen";
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return SCHEMA;
  }

  @Override
  public Table getTable(
      StructType schema, Transform[] partitioning, Map<String, String> properties) {
    String spec = new CaseInsensitiveStringMap(properties).get("spec");
    if (spec == null) {
      throw new IllegalArgumentException("tidemill-datagen needs the option 'spec'");
    }
    try {
      return new DatagenTable(JSON.readValue(spec, Spec.class));
    } catch (JsonProcessingException e) {
      throw new IllegalArgumentException("not a valid datagen spec: " + e.getOriginalMessage(), e);
    }
  }

  private record DatagenTable(Spec spec) implements SupportsRead {
    @Override
    public String name() {
      return "tidemill-datagen";
    }

    /** Deprecated for columns(), which Spark derives from it all the same. */
    @Override
    @SuppressWarnings("deprecation")
    public StructType schema() {
      return SCHEMA;
    }

    @Override
    public Set<TableCapability> capabilities() {
      return Set.of(TableCapability.MICRO_BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return () -> new DatagenScan(spec);
    }
  }

  private record DatagenScan(Spec spec) implements Scan {
    @Override
    public StructType readSchema() {
      return SCHEMA;
    }

    @Override
    public String description() {
      return "tidemill-datagen";
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
      return new DatagenStream(spec, checkpointLocation);
    }
  }
}
