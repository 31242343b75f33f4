package io.tidemill.files;

import io.tidemill.Fault;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.TaskContext;
import org.apache.spark.deploy.SparkHadoopUtil;

/**
 * The files that one task of one batch writes for one table: one in each partition that it has rows of.
 *
 * <p>Law: a file is there as a whole or not at all, and its name says which batch and task it is of: a batch that is
 * repeated writes the same files again, so that no row is there twice.
 */
public final class PartFiles {
  /** What may not stand in the name of a directory, beside control characters; as in Flink. */
  private static final String ESCAPED = "\"#%'*/:=?\\\u007F{[]^";
  /** Between the parts of a partition, as rows tell it. */
  private static final char BETWEEN = '\u0000';

  private record Part(Path temporary, Path last, OutputStream out) {}

  private final String table;
  private final String root;
  private final String name;
  private final Configuration conf;
  private final Map<String, Part> parts = new TreeMap<>();

  /** {@code name}: tells the batch, the task and the job from all others. */
  public PartFiles(String table, String root, String name) {
    this.table = table;
    this.root = root;
    this.name = name;
    this.conf = SparkHadoopUtil.get().conf();
  }

  /** {@code partition}: {@code name=value}, more of them after {@link #BETWEEN}; empty without any. */
  public void write(String partition, byte[] row) {
    try {
      Part part = parts.get(partition);
      if (part == null) {
        part = open(directory(partition));
        parts.put(partition, part);
      }
      part.out().write(row);
      part.out().write('\n');
    } catch (IOException e) {
      throw failed(e);
    }
  }

  private Part open(Path directory) throws IOException {
    TaskContext task = TaskContext.get();
    String attempt = task == null ? "0" : Long.toString(task.taskAttemptId());
    Path temporary = new Path(directory, "." + name + ".inprogress." + attempt);
    OutputStream out = new BufferedOutputStream(temporary.getFileSystem(conf).create(temporary, true), 1 << 16);
    return new Part(temporary, new Path(directory, name), out);
  }

  private Path directory(String partition) {
    Path directory = new Path(root);
    for (String part : partition.isEmpty() ? new String[0] : partition.split(String.valueOf(BETWEEN))) {
      int at = part.indexOf('=');
      directory = new Path(directory, part.substring(0, at) + "=" + escaped(part.substring(at + 1)));
    }
    return directory;
  }

  private static String escaped(String value) {
    StringBuilder text = new StringBuilder();
    for (char c : value.toCharArray()) {
      if (c < ' ' || ESCAPED.indexOf(c) >= 0) {
        text.append('%').append("%02X".formatted((int) c));
      } else {
        text.append(c);
      }
    }
    return text.toString();
  }

  /** Makes the files those of the table; the directories that they are in. */
  public List<String> commit() {
    List<String> directories = new ArrayList<>();
    try {
      for (Part part : parts.values()) {
        part.out().close();
        FileSystem files = part.last().getFileSystem(conf);
        files.delete(part.last(), false);
        if (!files.rename(part.temporary(), part.last())) {
          throw new IOException("'" + part.temporary() + "' cannot be renamed");
        }
        directories.add(part.last().getParent().toString());
      }
    } catch (IOException e) {
      throw failed(e);
    }
    parts.clear();
    return directories;
  }

  /** Leaves nothing behind of what was not committed. */
  public void close() {
    for (Part part : parts.values()) {
      try {
        part.out().close();
        part.temporary().getFileSystem(conf).delete(part.temporary(), false);
      } catch (IOException ignored) {
        // The job has failed already, and readers pass by files whose names begin with a dot.
      }
    }
    parts.clear();
  }

  /** Says in each of the directories that there are rows. */
  public static void succeed(Iterable<String> directories, String table, String file) {
    for (String directory : directories) {
      Path mark = new Path(directory, file);
      try {
        mark.getFileSystem(SparkHadoopUtil.get().conf()).create(mark, true).close();
      } catch (IOException e) {
        throw new Fault(
            Fault.FILES_UNREACHABLE,
            "table '" + table + "': '" + mark + "' cannot be written: " + e.getMessage(),
            null,
            e);
      }
    }
  }

  private Fault failed(IOException e) {
    return new Fault(
        Fault.FILES_UNREACHABLE,
        "table '" + table + "': files in '" + root + "' cannot be written: " + e.getMessage(),
        "'path' names a directory that all tasks may write to",
        e);
  }
}
