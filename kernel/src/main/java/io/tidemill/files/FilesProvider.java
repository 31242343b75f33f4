package io.tidemill.files;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.tidemill.Fault;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.util.SerializableConfiguration;

/**
 * The data source {@code tidemill-files}: the lines of the files below a directory, with what is known of each file.
 *
 * <p>Why not Spark's own: it looks for files once, when a query is made. Here every batch finds those that are there, so
 * that a row which is looked up meets the table as it is.
 */
public final class FilesProvider implements TableProvider, DataSourceRegister {
  private static final ObjectMapper JSON = new ObjectMapper();
  static final StructType SCHEMA =
      new StructType()
          .add("value", DataTypes.BinaryType, false)
          .add("line", DataTypes.LongType, false)
          .add("path", DataTypes.StringType, false)
          .add("size", DataTypes.LongType, false)
          .add("modified", DataTypes.TimestampType, false);

  /**
   * What to read.
   *
   * @param path a directory, of which all that is below it is read, or a file
   * @param pattern what the whole path of a file must match; null if any may be
   */
  record Spec(String table, String path, String pattern) {}

  @Override
  public String shortName() {
    return "tidemill-files";
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return SCHEMA;
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    String spec = new CaseInsensitiveStringMap(properties).get("spec");
    try {
      return new Files(JSON.readValue(spec, Spec.class));
    } catch (JsonProcessingException e) {
      throw new IllegalArgumentException("not a valid spec of files: " + e.getOriginalMessage(), e);
    }
  }

  private record Files(Spec spec) implements SupportsRead {
    @Override
    public String name() {
      return "tidemill-files";
    }

    /** Deprecated for columns(), which Spark derives from it all the same. */
    @Override
    @SuppressWarnings("deprecation")
    public StructType schema() {
      return SCHEMA;
    }

    @Override
    public Set<TableCapability> capabilities() {
      return Set.of(TableCapability.BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return () -> new FileScan(spec);
    }
  }

  private record FileScan(Spec spec) implements Scan, Batch {
    @Override
    public StructType readSchema() {
      return SCHEMA;
    }

    @Override
    public String description() {
      return "tidemill-files " + spec.table();
    }

    @Override
    public Batch toBatch() {
      return this;
    }

    /** One for each file, and one if there is none: who reads the table waits for a task that says that it is over. */
    @Override
    public InputPartition[] planInputPartitions() {
      Path root = new Path(spec.path());
      List<LineReader.File> found = new ArrayList<>();
      try {
        FileSystem files = root.getFileSystem(conf());
        Pattern pattern = spec.pattern() == null ? null : Pattern.compile(spec.pattern());
        collect(files, files.getFileStatus(root), pattern, found);
      } catch (IOException e) {
        throw new Fault(
            Fault.FILES_UNREACHABLE,
            "table '" + spec.table() + "': '" + spec.path() + "' cannot be read: " + e.getMessage(),
            "'path' names a directory or a file that is there",
            e);
      }
      if (found.isEmpty()) {
        found.add(new LineReader.File(null, 0, 0));
      }
      return found.toArray(new InputPartition[0]);
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
      return new LineReader.Factory(new SerializableConfiguration(conf()));
    }

    private static Configuration conf() {
      return ((org.apache.spark.sql.classic.SparkSession) SparkSession.active())
          .sessionState()
          .newHadoopConf();
    }

    private static void collect(
        FileSystem files, FileStatus at, Pattern pattern, List<LineReader.File> found) throws IOException {
      if (!at.isDirectory()) {
        String path = at.getPath().toString();
        if (pattern == null || pattern.matcher(at.getPath().toUri().getPath()).matches()) {
          found.add(new LineReader.File(path, at.getLen(), at.getModificationTime()));
        }
        return;
      }
      for (FileStatus below : files.listStatus(at.getPath())) {
        // As in Flink: what is being written, and what is not for readers.
        String name = below.getPath().getName();
        if (!name.startsWith(".") && !name.startsWith("_")) {
          collect(files, below, pattern, found);
        }
      }
    }
  }
}
