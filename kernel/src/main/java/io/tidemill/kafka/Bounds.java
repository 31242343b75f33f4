package io.tidemill.kafka;

import com.fasterxml.jackson.databind.JsonNode;
import io.tidemill.Fault;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/**
 * Where a source begins and, if it is bounded, ends.
 *
 * <p>Law: both are decided once, at the first start, and written into the checkpoint. "Latest" of
 * a restarted job is the latest of its first start.
 *
 * @param end null if the source is unbounded
 */
record Bounds(KafkaOffset start, KafkaOffset end) {
  private static final String FILE = "bounds";

  private record Stored(JsonNode start, JsonNode end) {}

  /** The bounds in the checkpoint, or those found now, which are then in the checkpoint. */
  static Bounds fix(SourceSpec spec, Topics topics, String metadataPath, Configuration conf) {
    Path directory = new Path(metadataPath);
    Path file = new Path(directory, FILE);
    CheckpointFileManager files = CheckpointFileManager.create(directory, conf);
    try {
      try (InputStream in = files.open(file)) {
        Stored stored =
            Json.read(new String(in.readAllBytes(), StandardCharsets.UTF_8), Stored.class);
        return new Bounds(
            KafkaOffset.parse(stored.start().toString()),
            stored.end() == null || stored.end().isNull()
                ? null
                : KafkaOffset.parse(stored.end().toString()));
      } catch (FileNotFoundException first) {
        Bounds found = resolve(spec, topics);
        files.mkdirs(directory);
        String end = found.end() == null ? "null" : found.end().json();
        String json = "{\"start\":" + found.start().json() + ",\"end\":" + end + "}";
        CheckpointFileManager.CancellableFSDataOutputStream out = files.createAtomic(file, false);
        try {
          out.write(json.getBytes(StandardCharsets.UTF_8));
          out.close();
        } catch (IOException e) {
          out.cancel();
          throw e;
        }
        return found;
      }
    } catch (IOException e) {
      throw Clients.sneaky(e);
    }
  }

  private static Bounds resolve(SourceSpec spec, Topics topics) {
    Set<TopicPartition> partitions = topics.partitions();
    Map<TopicPartition, Long> ends =
        spec.isBounded() ? new HashMap<>(ends(spec, topics, partitions)) : Map.of();
    Map<TopicPartition, Long> start = starts(spec, topics, partitions, ends);
    return new Bounds(
        KafkaOffset.of(start, topics.ids()), spec.isBounded() ? KafkaOffset.of(ends) : null);
  }

  private static Map<TopicPartition, Long> starts(
      SourceSpec spec,
      Topics topics,
      Set<TopicPartition> partitions,
      Map<TopicPartition, Long> stops) {
    SourceSpec.Edge startup = spec.startup();
    return switch (startup.mode()) {
      case "earliest-offset" -> topics.beginnings(partitions);
      case "latest-offset" -> topics.ends(partitions);
      case "timestamp" -> topics.at(startup.timestampMillis(), partitions);
      case "group-offsets" -> {
        String reset =
            spec.properties().getOrDefault("auto.offset.reset", "none").toLowerCase(Locale.ROOT);
        Map<TopicPartition, Long> wanted = topics.committed(partitions);
        yield within(spec, topics, partitions, wanted, stops, reset);
      }
      case "specific-offsets" -> {
        Map<TopicPartition, Long> wanted = new HashMap<>(topics.committed(partitions));
        wanted.putAll(specific(startup, partitions));
        yield within(spec, topics, partitions, wanted, stops, "earliest");
      }
      default ->
          throw new IllegalArgumentException("startup mode '" + startup.mode() + "' is not known");
    };
  }

  private static Map<TopicPartition, Long> ends(
      SourceSpec spec, Topics topics, Set<TopicPartition> partitions) {
    SourceSpec.Edge bounded = spec.bounded();
    return switch (bounded.mode()) {
      case "latest-offset" -> topics.ends(partitions);
      case "timestamp" -> topics.at(bounded.timestampMillis(), partitions);
      case "group-offsets" -> {
        Map<TopicPartition, Long> committed = topics.committed(partitions);
        for (TopicPartition tp : partitions) {
          if (!committed.containsKey(tp)) {
            throw noOffset(spec, tp, "choose another scan.bounded.mode");
          }
        }
        yield committed;
      }
      case "specific-offsets" -> {
        // A partition that is not listed ends where the group is, else where it begins.
        Map<TopicPartition, Long> ends = new HashMap<>(topics.beginnings(partitions));
        ends.putAll(topics.committed(partitions));
        ends.putAll(specific(bounded, partitions));
        yield ends;
      }
      default ->
          throw new IllegalArgumentException("bounded mode '" + bounded.mode() + "' is not known");
    };
  }

  private static Map<TopicPartition, Long> specific(
      SourceSpec.Edge edge, Set<TopicPartition> partitions) {
    Map<TopicPartition, Long> listed = new HashMap<>();
    for (TopicPartition tp : partitions) {
      Long offset = edge.offsets().get(tp.partition());
      if (offset != null) {
        listed.put(tp, offset);
      }
    }
    return listed;
  }

  /**
   * As a Kafka client does it: an offset that is absent or out of range is reset, and one behind a
   * transaction that is open is in range. A partition whose offset is at or behind its stop is not
   * read: both come to one place, which the partition has.
   */
  private static Map<TopicPartition, Long> within(
      SourceSpec spec,
      Topics topics,
      Set<TopicPartition> partitions,
      Map<TopicPartition, Long> wanted,
      Map<TopicPartition, Long> stops,
      String reset) {
    Map<TopicPartition, Long> beginnings = topics.beginnings(partitions);
    Map<TopicPartition, Long> ends = topics.ends(partitions);
    Map<TopicPartition, Long> highs = spec.readsCommitted() ? topics.highs(partitions) : ends;
    Map<TopicPartition, Long> result = new HashMap<>();
    for (TopicPartition tp : partitions) {
      Long offset = wanted.get(tp);
      long beginning = beginnings.get(tp);
      long high = highs.get(tp);
      Long stop = stops.get(tp);
      if (offset != null && stop != null && offset >= stop) {
        result.put(tp, Math.min(stop, high));
        stops.put(tp, Math.min(stop, high));
      } else if (offset != null && offset >= beginning && offset <= high) {
        result.put(tp, offset);
      } else if (reset.equals("earliest")) {
        result.put(tp, beginning);
      } else if (reset.equals("latest")) {
        result.put(tp, ends.get(tp));
      } else if (offset == null) {
        throw noOffset(
            spec,
            tp,
            "set 'properties.auto.offset.reset' to 'earliest' or 'latest', or choose another"
                + " scan.startup.mode");
      } else {
        throw new Fault(
            Fault.DATA_LOSS,
            "table '%s': group '%s' is at offset %d of partition %s, which holds %d to %d"
                .formatted(spec.table(), spec.group(), offset, tp, beginning, high),
            "set 'properties.auto.offset.reset' to 'earliest' or 'latest'");
      }
    }
    return result;
  }

  private static Fault noOffset(SourceSpec spec, TopicPartition tp, String hint) {
    return new Fault(
        Fault.NO_COMMITTED_OFFSET,
        "table '%s': group '%s' has no committed offset for partition %s"
            .formatted(spec.table(), spec.group(), tp),
        hint);
  }
}
