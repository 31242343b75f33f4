package io.tidemill.checkpoint;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.zip.ZipEntry;
import java.util.zip.ZipInputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * The files in which Spark keeps the state of a job: for each operator and partition snapshots, the tables that these
 * name, and what has changed since.
 *
 * <p>Spark looks at a file when a task needs it, and by then other tasks may have written their rows. Here they are
 * looked at before a job goes on: all that it will need is there and whole, or the first that is not is named. Only ends
 * and lengths are read, so that it costs little however large the state is.
 */
public final class StateFiles {
  private static final Pattern NAME = Pattern.compile("(\\d+)(?:_[^.]+)?\\.(zip|changelog)");
  private static final byte[] BLOCK = "LZ4Block".getBytes(StandardCharsets.US_ASCII);
  /** The mark, a token, and three numbers, of which the second is the length of what the block holds. */
  private static final int HEADER = BLOCK.length + 1 + 3 * Integer.BYTES;
  private static final int LENGTH = BLOCK.length + 1 + Integer.BYTES;

  private final FileSystem files;

  private StateFiles(FileSystem files) {
    this.files = files;
  }

  /** The first file that is missing or broken, and what is wrong with it; empty if the state is whole. */
  public static String broken(String checkpoint, Configuration conf, long version, int partitions)
      throws IOException {
    Path state = new Path(checkpoint, "state");
    StateFiles checked = new StateFiles(state.getFileSystem(conf));
    try {
      for (int operator : checked.operators(state)) {
        Path directory = new Path(state, "" + operator);
        checked.checkDescription(new Path(directory, "_metadata/v2"));
        for (int partition = 0; partition < partitions; partition++) {
          checked.check(new Path(directory, "" + partition), version);
        }
      }
      return "";
    } catch (Broken e) {
      return e.getMessage();
    }
  }

  /** Bytes on the disk, by operator. */
  public static Map<Integer, Long> sizes(String checkpoint, Configuration conf) throws IOException {
    Path state = new Path(checkpoint, "state");
    FileSystem files = state.getFileSystem(conf);
    Map<Integer, Long> sizes = new HashMap<>();
    if (files.exists(state)) {
      for (int operator : new StateFiles(files).operators(state)) {
        sizes.put(operator, files.getContentSummary(new Path(state, "" + operator)).getLength());
      }
    }
    return sizes;
  }

  private TreeSet<Integer> operators(Path state) throws IOException {
    TreeSet<Integer> found = new TreeSet<>();
    for (FileStatus each : list(state)) {
      if (each.getPath().getName().matches("\\d+")) {
        found.add(Integer.parseInt(each.getPath().getName()));
      }
    }
    if (found.isEmpty()) {
      throw new Broken(state, "holds no operator");
    }
    return found;
  }

  private void check(Path directory, long version) throws IOException {
    Map<Long, Path> changes = new HashMap<>();
    Path snapshot = null;
    long from = 0;
    for (FileStatus each : list(directory)) {
      Matcher name = NAME.matcher(each.getPath().getName());
      if (!name.matches()) {
        continue;
      }
      long number = Long.parseLong(name.group(1));
      if (name.group(2).equals("changelog")) {
        changes.put(number, each.getPath());
      } else if (number <= version && number > from) {
        from = number;
        snapshot = each.getPath();
      }
    }
    if (snapshot == null) {
      // Spark makes one of the first version, without which it does not know what the changes are of.
      throw new Broken(directory, "holds no snapshot");
    }
    checkSnapshot(snapshot);
    for (long number = from + 1; number <= version; number++) {
      Path change = changes.get(number);
      if (change == null) {
        throw new Broken(new Path(directory, number + ".changelog"), "is missing");
      }
      checkEnd(change);
    }
  }

  /** What Spark says of an operator is a version and a line of JSON, which names the file with the state's columns. */
  private void checkDescription(Path directory) throws IOException {
    long last = -1;
    for (FileStatus each : list(directory)) {
      String name = each.getPath().getName();
      last = name.matches("\\d+") ? Math.max(last, Long.parseLong(name)) : last;
    }
    if (last < 0) {
      throw new Broken(directory, "is empty");
    }
    Path newest = new Path(directory, "" + last);
    String text = new String(read(newest), StandardCharsets.UTF_8);
    JsonNode description;
    try {
      description = new ObjectMapper().readTree(text.substring(text.indexOf('\n') + 1));
    } catch (JsonProcessingException e) {
      throw new Broken(newest, "is broken");
    }
    for (JsonNode store : description.path("stateStoreInfo")) {
      for (JsonNode schema : store.path("stateSchemaFilePaths")) {
        if (length(new Path(schema.asText())) == 0) {
          throw new Broken(new Path(schema.asText()), "is broken");
        }
      }
    }
  }

  private void checkSnapshot(Path snapshot) throws IOException {
    JsonNode metadata = null;
    try (ZipInputStream zip = new ZipInputStream(new ByteArrayInputStream(read(snapshot)))) {
      for (ZipEntry entry = zip.getNextEntry(); entry != null; entry = zip.getNextEntry()) {
        byte[] content = zip.readAllBytes();
        if (entry.getName().equals("metadata")) {
          String text = new String(content, StandardCharsets.UTF_8);
          metadata = new ObjectMapper().readTree(text.substring(text.indexOf('\n') + 1));
        }
      }
    } catch (IOException e) {
      throw new Broken(snapshot, "is broken");
    }
    if (metadata == null) {
      throw new Broken(snapshot, "is broken");
    }
    for (JsonNode table : metadata.path("sstFiles")) {
      String name = table.path("dfsSstFileName").asText();
      Path place = new Path(new Path(snapshot.getParent(), "SSTs"), name);
      if (length(place) != table.path("sizeBytes").asLong()) {
        throw new Broken(place, "is broken");
      }
    }
  }

  /** What was written in LZ4 blocks ends with an empty one. */
  private void checkEnd(Path change) throws IOException {
    long length = length(change);
    try (FSDataInputStream in = files.open(change)) {
      byte[] start = new byte[BLOCK.length];
      byte[] end = new byte[HEADER];
      if (length < HEADER) {
        throw new Broken(change, "is broken");
      }
      in.readFully(0, start);
      if (ByteBuffer.wrap(start).equals(ByteBuffer.wrap(BLOCK))) {
        in.readFully(length - HEADER, end);
        boolean isBlock = ByteBuffer.wrap(end, 0, BLOCK.length).equals(ByteBuffer.wrap(BLOCK));
        if (!isBlock || ByteBuffer.wrap(end).getInt(LENGTH) != 0) {
          throw new Broken(change, "is broken");
        }
      }
    }
  }

  private FileStatus[] list(Path directory) throws IOException {
    try {
      return files.listStatus(directory);
    } catch (FileNotFoundException e) {
      throw new Broken(directory, "is missing");
    }
  }

  private long length(Path file) throws IOException {
    try {
      return files.getFileStatus(file).getLen();
    } catch (FileNotFoundException e) {
      throw new Broken(file, "is missing");
    }
  }

  private byte[] read(Path file) throws IOException {
    try (FSDataInputStream in = files.open(file)) {
      return in.readAllBytes();
    }
  }

  private static final class Broken extends IOException {
    Broken(Path file, String what) {
      super("'" + file.toUri().getPath() + "' " + what);
    }
  }
}
