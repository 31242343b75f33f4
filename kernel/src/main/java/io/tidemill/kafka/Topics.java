package io.tidemill.kafka;

import io.tidemill.Fault;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The topics of one table as the driver sees them: which partitions, which offsets. */
final class Topics implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(Topics.class);
  private static final Duration PROBE = Duration.ofSeconds(10);
  private static final Duration PARTING = Duration.ofSeconds(5);

  private final SourceSpec spec;
  private KafkaConsumer<ByteBuffer, ByteBuffer> consumer;

  Topics(SourceSpec spec) {
    this.spec = spec;
  }

  /** All partitions there are now; a topic that is named and does not exist is a fault. */
  Set<TopicPartition> partitions() {
    Admin.Found found =
        Admin.find(
            spec.properties(),
            spec.topics(),
            spec.topicPattern(),
            Clients.timeoutMs(spec.properties()));
    if (!found.missing().isEmpty()) {
      throw missing(found.missing());
    }
    Set<TopicPartition> partitions = new HashSet<>();
    found
        .topics()
        .forEach(
            (topic, count) -> {
              for (int partition = 0; partition < count; partition++) {
                partitions.add(new TopicPartition(topic, partition));
              }
            });
    return partitions;
  }

  Map<TopicPartition, Long> beginnings(Collection<TopicPartition> partitions) {
    return offsets("first", partitions, () -> consumer().beginningOffsets(partitions));
  }

  /** With isolation.level=read_committed the end is where the first open transaction begins. */
  Map<TopicPartition, Long> ends(Collection<TopicPartition> partitions) {
    return offsets("last", partitions, () -> consumer().endOffsets(partitions));
  }

  /** The first offset of each partition at or after a time, else its end. */
  Map<TopicPartition, Long> at(long timestampMillis, Collection<TopicPartition> partitions) {
    Map<TopicPartition, Long> times = new HashMap<>();
    partitions.forEach(tp -> times.put(tp, timestampMillis));
    return offsets(
        "timestamped",
        partitions,
        () -> {
          Map<TopicPartition, Long> result = new HashMap<>(consumer().endOffsets(partitions));
          for (Map.Entry<TopicPartition, OffsetAndTimestamp> found :
              consumer().offsetsForTimes(times).entrySet()) {
            if (found.getValue() != null) {
              result.put(found.getKey(), found.getValue().offset());
            }
          }
          return result;
        });
  }

  /** What the group has committed; nothing for a partition where it has not, or without a group. */
  Map<TopicPartition, Long> committed(Set<TopicPartition> partitions) {
    if (spec.group() == null) {
      return Map.of();
    }
    return call(
        "reading the offsets of group '" + spec.group() + "'",
        () -> {
          Map<TopicPartition, Long> result = new HashMap<>();
          for (Map.Entry<TopicPartition, OffsetAndMetadata> found :
              consumer().committed(partitions).entrySet()) {
            if (found.getValue() != null) {
              result.put(found.getKey(), found.getValue().offset());
            }
          }
          return result;
        });
  }

  /** Tells the group how far we are, for those who watch it; nothing here ever reads it back. */
  void publish(KafkaOffset offset) {
    if (spec.group() == null) {
      return;
    }
    Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
    offset.forEach((tp, next) -> positions.put(tp, new OffsetAndMetadata(next)));
    call(
        "committing the offsets of group '" + spec.group() + "'",
        () -> {
          consumer()
              .commitAsync(
                  positions,
                  (ignored, e) -> {
                    if (e != null) {
                      LOG.warn(
                          "offsets of group '{}' not committed (table '{}'): {}",
                          spec.group(),
                          spec.table(),
                          e.getMessage());
                    }
                  });
          return null;
        });
  }

  @Override
  public void close() {
    if (consumer != null) {
      // Waits for commits that are still under way.
      consumer.close(PARTING);
      consumer = null;
    }
  }

  private KafkaConsumer<ByteBuffer, ByteBuffer> consumer() {
    if (consumer == null) {
      consumer = Clients.consumer(spec, "driver", 1 << 20, false, false);
    }
    return consumer;
  }

  private Map<TopicPartition, Long> offsets(
      String which,
      Collection<TopicPartition> partitions,
      Callable<Map<TopicPartition, Long>> body) {
    if (partitions.isEmpty()) {
      return Map.of();
    }
    return call(
        "looking up the " + which + " offsets of table '" + spec.table() + "'",
        () -> {
          try {
            return body.call();
          } catch (TimeoutException e) {
            // A deleted topic looks like a silent broker: the client asks again and again.
            Set<String> missing = new TreeSet<>();
            partitions.forEach(tp -> missing.add(tp.topic()));
            missing.removeAll(consumer().listTopics(PROBE).keySet());
            throw missing.isEmpty() ? e : missing(missing);
          }
        });
  }

  private <T> T call(String doing, Callable<T> body) {
    return Clients.call(spec.properties(), doing, body);
  }

  private RuntimeException missing(Set<String> topics) {
    return new Fault(
        Fault.TOPIC_MISSING,
        "table '"
            + spec.table()
            + "': no topic '"
            + String.join("', '", topics)
            + "' at "
            + spec.properties().get("bootstrap.servers"),
        "create the topic, or correct the option 'topic'");
  }
}
