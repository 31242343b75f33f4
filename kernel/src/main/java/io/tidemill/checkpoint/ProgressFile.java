package io.tidemill.checkpoint;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.tidemill.state.Counts;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import org.apache.spark.sql.streaming.StreamingQueryProgress;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The last progress of a job, as {@code progress.json} in its checkpoint, for those who look at it from outside: Spark's
 * report of the last batch, the names of the operators in it, and what they met. It is written by the job itself, a few
 * times a second at most, beside its work; nothing depends on it.
 */
public final class ProgressFile extends StreamingQueryListener {
  private static final Logger LOG = LoggerFactory.getLogger(ProgressFile.class);
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String NAME = "progress.json";
  private static final long LEAST_NANOS = 300_000_000;

  private static final Map<UUID, Followed> JOBS = new ConcurrentHashMap<>();
  private static final Map<SparkSession, Boolean> LISTENING = new ConcurrentHashMap<>();

  private static final class Followed {
    final Path file;
    final FileSystem files;
    final String name;
    final List<String> operators;
    final Map<String, Counts> counts;
    /** By table and partition, what is known of its time; a run that goes on does not know what the one before has read. */
    final Map<String, ObjectNode> times = new ConcurrentHashMap<>();
    /** Spark's report that is to be written next. */
    private StreamingQueryProgress unwritten;
    private long written = System.nanoTime() - LEAST_NANOS;

    Followed(Path file, FileSystem files, String name, List<String> operators, Map<String, Counts> counts) {
      this.file = file;
      this.files = files;
      this.name = name;
      this.operators = operators;
      this.counts = counts;
    }
  }

  /**
   * Has a query's progress written from now on.
   *
   * @param operators the names of those with state, in Spark's order
   * @param counts what operators count, by their names
   */
  public static void follow(
      SparkSession session,
      Configuration conf,
      String query,
      String checkpoint,
      String name,
      List<String> operators,
      Map<String, Counts> counts)
      throws IOException {
    Path file = new Path(checkpoint, NAME);
    Followed job = new Followed(file, files(file, conf), name, List.copyOf(operators), new LinkedHashMap<>(counts));
    remember(job);
    JOBS.put(UUID.fromString(query), job);
    LISTENING.computeIfAbsent(
        session,
        each -> {
          each.streams().addListener(new ProgressFile());
          return true;
        });
  }

  /** Without the sums of a local file, which nobody who looks from outside keeps. */
  private static FileSystem files(Path file, Configuration conf) throws IOException {
    FileSystem found = file.getFileSystem(conf);
    return found instanceof LocalFileSystem local ? local.getRaw() : found;
  }

  /** Takes up what the run before knew. */
  private static void remember(Followed job) {
    try {
      if (job.files.exists(job.file)) {
        try (var in = job.files.open(job.file)) {
          complete(job, JSON.readTree(in.readAllBytes()).path("report"));
        }
      }
    } catch (IOException e) {
      LOG.debug("{} cannot be read", job.file, e);
    }
  }

  @Override
  public void onQueryStarted(QueryStartedEvent event) {}

  @Override
  public void onQueryProgress(QueryProgressEvent event) {
    Followed job = JOBS.get(event.progress().id());
    if (job == null || !event.progress().durationMs().containsKey("addBatch")) {
      return;
    }
    try {
      job.unwritten = event.progress();
      write(job, false);
    } catch (IOException e) {
      LOG.warn("{} cannot be written: {}", job.file, e.toString());
    }
  }

  @Override
  public void onQueryIdle(QueryIdleEvent event) {
    finish(JOBS.get(event.id()));
  }

  @Override
  public void onQueryTerminated(QueryTerminatedEvent event) {
    finish(JOBS.remove(event.id()));
  }

  private static void finish(Followed job) {
    if (job != null) {
      try {
        write(job, true);
      } catch (IOException e) {
        LOG.warn("{} cannot be written: {}", job.file, e.toString());
      }
    }
  }

  private static String text(Followed job, String report) throws JsonProcessingException {
    JsonNode read = JSON.readTree(report);
    complete(job, read);
    ObjectNode all = JSON.createObjectNode();
    all.put("version", 1);
    all.put("job", job.name);
    all.putPOJO("operators", job.operators);
    Map<String, Long> met = new LinkedHashMap<>();
    job.counts.forEach((name, counts) -> counts.values().forEach((what, n) -> met.merge(name + ": " + what, n, Long::sum)));
    all.putPOJO("met", met);
    all.set("report", read);
    return JSON.writeValueAsString(all);
  }

  /** Adds to a report what earlier ones knew about the times of partitions, and keeps what this one knows. */
  private static void complete(Followed job, JsonNode report) throws JsonProcessingException {
    for (JsonNode source : report.path("sources")) {
      if (!(source.path("metrics") instanceof ObjectNode metrics) || !metrics.has("times")) {
        continue;
      }
      JsonNode topics = JSON.readTree(metrics.get("times").asText());
      for (var topic : topics.properties()) {
        for (var partition : topic.getValue().properties()) {
          String place = source.path("description").asText() + "/" + topic.getKey() + "/" + partition.getKey();
          ObjectNode now = (ObjectNode) partition.getValue();
          ObjectNode before = job.times.put(place, now);
          if (before != null) {
            for (String what : List.of("time", "watermark")) {
              if (!now.has(what) && before.has(what)) {
                now.set(what, before.get(what));
              }
            }
          }
        }
      }
      metrics.put("times", JSON.writeValueAsString(topics));
    }
  }

  private static void write(Followed job, boolean last) throws IOException {
    if (job.unwritten == null || !last && System.nanoTime() - job.written < LEAST_NANOS) {
      return;
    }
    byte[] text = text(job, job.unwritten.json()).getBytes(StandardCharsets.UTF_8);
    if (job.files instanceof RawLocalFileSystem local) {
      writeHere(local.pathToFile(job.file).toPath(), text);
    } else {
      writeThere(job, text);
    }
    job.unwritten = null;
    job.written = System.nanoTime();
  }

  /** Hadoop's own way starts a process for the rights of each file. */
  private static void writeHere(java.nio.file.Path file, byte[] text) throws IOException {
    java.nio.file.Path next = file.resolveSibling(NAME + ".new");
    Files.write(next, text);
    Files.move(next, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
  }

  private static void writeThere(Followed job, byte[] text) throws IOException {
    Path next = job.file.suffix(".new");
    try (FSDataOutputStream out = job.files.create(next, true)) {
      out.write(text);
    }
    job.files.delete(job.file, false);
    job.files.rename(next, job.file);
  }
}
