package io.tidemill.kafka;

import io.tidemill.Fault;
import io.tidemill.Notices;
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
import org.apache.kafka.common.errors.GroupAuthorizationException;
import org.apache.kafka.common.errors.TimeoutException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The topics of one table as the driver sees them: which partitions, which offsets.
 *
 * <p>A topic that is missing when a job starts is a fault; one that is removed later is said to be
 * gone, and left out from then on, until it is there again. Then it is another topic of that name,
 * which has another id.
 */
final class Topics implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(Topics.class);
  private static final Duration PROBE = Duration.ofSeconds(5);
  private static final Duration PARTING = Duration.ofSeconds(5);

  private final SourceSpec spec;
  private final Set<String> gone = new TreeSet<>();
  /** Topics of which the user was told that they are gone. */
  private final Set<String> told = new HashSet<>();
  private final Map<String, String> ids = new HashMap<>();
  /** All ids that this run has met. */
  private final Set<String> met = new HashSet<>();
  private Set<String> seen = Set.of();
  private boolean started;
  private KafkaConsumer<ByteBuffer, ByteBuffer> consumer;
  private KafkaConsumer<ByteBuffer, ByteBuffer> watcher;

  Topics(SourceSpec spec) {
    this.spec = spec;
  }

  /** From now on a topic may be missing. */
  void start() {
    started = true;
  }

  boolean isGone(String topic) {
    return gone.contains(topic);
  }

  /** The ids of topics, from brokers that have them. */
  Map<String, String> ids() {
    return ids;
  }

  /** Whether a topic is another one than an offset is about. */
  boolean isAnew(KafkaOffset offset, String topic) {
    String then = offset.ids().get(topic);
    String now = ids.get(topic);
    return then != null && now != null && !then.equals(now);
  }

  /** Whether it became another one in this run. */
  boolean hasSeenRemoved(KafkaOffset offset, String topic) {
    return isAnew(offset, topic)
        && (told.contains(topic) || met.contains(offset.ids().get(topic)));
  }

  /** All partitions there are now. */
  Set<TopicPartition> partitions() {
    Admin.Found found =
        Admin.find(
            spec.properties(),
            "table '" + spec.table() + "': looking up topics",
            spec.topics(),
            spec.topicPattern(),
            Clients.timeoutMs(spec.properties()));
    Set<String> missing = new TreeSet<>(seen);
    missing.removeAll(found.topics().keySet());
    missing.addAll(found.missing());
    gone.removeAll(found.topics().keySet());
    ids.putAll(found.ids());
    met.addAll(found.ids().values());
    miss(missing);
    seen = found.topics().keySet();
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
    return offsets("first", partitions, consumer()::beginningOffsets);
  }

  /** With isolation.level=read_committed the end is where the first open transaction begins. */
  Map<TopicPartition, Long> ends(Collection<TopicPartition> partitions) {
    return offsets("last", partitions, consumer()::endOffsets);
  }

  /** Where the next record will be written, also behind transactions that are open. */
  Map<TopicPartition, Long> highs(Collection<TopicPartition> partitions) {
    if (!spec.readsCommitted()) {
      return ends(partitions);
    }
    if (watcher == null) {
      watcher = Clients.watcher(spec, "watcher");
    }
    return offsets("last", partitions, watcher::endOffsets);
  }

  /** The first offset of each partition at or after a time, else its end. */
  Map<TopicPartition, Long> at(long timestampMillis, Collection<TopicPartition> partitions) {
    return offsets(
        "timestamped",
        partitions,
        (there, patience) -> {
          Map<TopicPartition, Long> times = new HashMap<>();
          there.forEach(tp -> times.put(tp, timestampMillis));
          Map<TopicPartition, Long> result =
              new HashMap<>(consumer().endOffsets(there, patience));
          for (Map.Entry<TopicPartition, OffsetAndTimestamp> found :
              consumer().offsetsForTimes(times, patience).entrySet()) {
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
        "table '" + spec.table() + "': reading the offsets of group '" + spec.group() + "'",
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
    if (spec.group() == null || !spec.commits()) {
      return;
    }
    Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
    offset.forEach((tp, next) -> positions.put(tp, new OffsetAndMetadata(next)));
    call(
        "table '" + spec.table() + "': committing the offsets of group '" + spec.group() + "'",
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
                    if (e instanceof GroupAuthorizationException) {
                      // Nothing depends on it but those who watch the group, and they are told.
                      say(
                          "table '%s': the broker at %s refused group '%s': its offsets are not committed any more"
                              .formatted(
                                  spec.table(),
                                  spec.properties().get("bootstrap.servers"),
                                  spec.group()));
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
    if (watcher != null) {
      watcher.close(Duration.ZERO);
      watcher = null;
    }
  }

  private KafkaConsumer<ByteBuffer, ByteBuffer> consumer() {
    if (consumer == null) {
      consumer = Clients.consumer(spec, "driver", false, false);
    }
    return consumer;
  }

  private interface Lookup {
    Map<TopicPartition, Long> of(Collection<TopicPartition> partitions, Duration patience);
  }

  private Map<TopicPartition, Long> offsets(
      String which, Collection<TopicPartition> partitions, Lookup lookup) {
    return call(
        "table '" + spec.table() + "': looking up the " + which + " offsets",
        () -> {
          Collection<TopicPartition> there = present(partitions);
          if (there.isEmpty()) {
            return Map.of();
          }
          try {
            return lookup.of(there, PROBE);
          } catch (TimeoutException e) {
            // A removed topic looks like a silent broker: the client asks again and again.
            Set<String> missing = new TreeSet<>();
            there.forEach(tp -> missing.add(tp.topic()));
            missing.removeAll(names());
            miss(missing);
          }
          there = present(partitions);
          Duration patience = Duration.ofMillis(Clients.timeoutMs(spec.properties()));
          return there.isEmpty() ? Map.of() : lookup.of(there, patience);
        });
  }

  private Collection<TopicPartition> present(Collection<TopicPartition> partitions) {
    return gone.isEmpty()
        ? partitions
        : partitions.stream().filter(tp -> !gone.contains(tp.topic())).toList();
  }

  /** The names of all topics, however long it takes while the user has patience. */
  private Set<String> names() {
    try {
      return consumer().listTopics(PROBE).keySet();
    } catch (TimeoutException e) {
      Clients.sayAway(spec.properties());
      return consumer().listTopics().keySet();
    }
  }

  /** Takes note of topics that are not there: a fault at the start, and later a word to the user. */
  private void miss(Set<String> topics) {
    if (!started && !topics.isEmpty()) {
      throw missing(topics);
    }
    for (String topic : topics) {
      if (gone.add(topic)) {
        told.add(topic);
        say(goneText(spec, topic));
      }
    }
  }

  /** Says it to the user, who has perhaps just heard it: tasks say it too. */
  static void say(String text) {
    Notices.sayOnceAMinute(text, text);
  }

  static String goneText(SourceSpec spec, String topic) {
    return "table '%s': topic '%s' was removed; what was not read of it is lost, and the job goes on without it"
        .formatted(spec.table(), topic);
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
