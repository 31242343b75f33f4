package io.tidemill.kafka;

import com.fasterxml.jackson.annotation.JsonIgnore;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What the planner asks a broker before a job starts. JSON in, JSON out. */
public final class Admin {
  private static final Logger LOG = LoggerFactory.getLogger(Admin.class);
  private static final long CREATE_TIMEOUT_MS = 30_000;

  private record Wanted(Map<String, String> properties, List<String> topics, String topicPattern) {}

  private record Creation(Map<String, String> properties, Map<String, Shape> topics) {}

  private record Shape(Integer partitions, Short replicas, Map<String, String> configs) {}

  private record Leftover(Map<String, String> properties, String prefix) {}

  /** Partitions by topic, the topics that do not exist, and ids by topic from brokers that have them. */
  record Found(
      Map<String, Integer> topics, Set<String> missing, @JsonIgnore Map<String, String> ids) {}

  /** Topics to write to; whether the broker makes a topic that is asked for, null if it does not say. */
  record Targets(
      Map<String, Integer> topics,
      Set<String> missing,
      Set<String> compacted,
      Boolean createsTopics) {}

  private Admin() {}

  /**
   * The partitions of topics: {@code {"topics":{"name":2},"missing":["x"]}}, for {@code
   * {"properties":…,"topics":[…]}} or {@code {"properties":…,"topicPattern":"regex"}}.
   */
  public static String describeTopics(String specJson, long timeoutMs) {
    Wanted wanted = Json.read(specJson, Wanted.class);
    return Json.write(
        find(wanted.properties(), wanted.topics(), wanted.topicPattern(), timeoutMs));
  }

  /**
   * What {@link #describeTopics} says, and what a sink must know beside it: {@code
   * {…,"compacted":["name"],"createsTopics":true}}.
   */
  public static String describeTargets(String specJson, long timeoutMs) {
    Wanted wanted = Json.read(specJson, Wanted.class);
    Found found = find(wanted.properties(), wanted.topics(), wanted.topicPattern(), timeoutMs);
    return ask(
        wanted.properties(),
        "looking up topics",
        timeoutMs,
        (admin, deadline) -> {
          Set<String> compacted = new TreeSet<>();
          for (String topic : found.topics().keySet()) {
            String policy =
                setting(admin, ConfigResource.Type.TOPIC, topic, "cleanup.policy", deadline);
            // A broker that does not say gets the benefit of the doubt.
            if (policy == null || policy.contains("compact")) {
              compacted.add(topic);
            }
          }
          Boolean creates = null;
          if (!found.missing().isEmpty()) {
            String node = get(admin.describeCluster().controller(), deadline).idString();
            String said =
                setting(
                    admin,
                    ConfigResource.Type.BROKER,
                    node,
                    "auto.create.topics.enable",
                    deadline);
            creates = said == null ? null : Boolean.valueOf(said);
          }
          return Json.write(new Targets(found.topics(), found.missing(), compacted, creates));
        });
  }

  /** One setting of a topic or broker; null if we may not know it. */
  private static String setting(
      AdminClient admin, ConfigResource.Type type, String name, String key, long deadline)
      throws Exception {
    ConfigResource resource = new ConfigResource(type, name);
    try {
      ConfigEntry entry =
          get(admin.describeConfigs(List.of(resource)).values().get(resource), deadline).get(key);
      return entry == null ? null : entry.value();
    } catch (AuthorizationException e) {
      return null;
    }
  }

  /** Asks the broker itself; a consumer would answer from what it knew five minutes ago. */
  static Found find(
      Map<String, String> properties, List<String> topics, String topicPattern, long timeoutMs) {
    return ask(
        properties,
        "looking up topics",
        timeoutMs,
        (admin, deadline) -> {
          Collection<String> names = topics;
          if (names == null) {
            Pattern pattern = Pattern.compile(topicPattern);
            names = new ArrayList<>(get(admin.listTopics().names(), deadline));
            names.removeIf(name -> !pattern.matcher(name).matches());
          }
          Found found = new Found(new TreeMap<>(), new TreeSet<>(), new TreeMap<>());
          for (Map.Entry<String, KafkaFuture<TopicDescription>> topic :
              admin.describeTopics(names).topicNameValues().entrySet()) {
            try {
              TopicDescription there = get(topic.getValue(), deadline);
              found.topics().put(topic.getKey(), there.partitions().size());
              if (!Uuid.ZERO_UUID.equals(there.topicId())) {
                found.ids().put(topic.getKey(), there.topicId().toString());
              }
            } catch (UnknownTopicOrPartitionException | InvalidTopicException e) {
              found.missing().add(topic.getKey());
            }
          }
          return found;
        });
  }

  /**
   * The partitions of topics that may only be about to be there: {@code {"name":2}}, for {@code
   * {"properties":…,"topics":[…]}}. To ask as a producer does makes the broker create a topic, if it
   * does that for anybody. One that is not there in time is left out.
   */
  public static String askForTopics(String specJson, long timeoutMs) {
    Wanted wanted = Json.read(specJson, Wanted.class);
    Map<String, String> properties = new TreeMap<>(wanted.properties());
    properties.put("max.block.ms", Long.toString(timeoutMs));
    TreeMap<String, Integer> found = new TreeMap<>();
    try (var producer = Clients.producer(properties, "tidemill")) {
      for (String topic : wanted.topics()) {
        try {
          found.put(topic, producer.partitionsFor(topic).size());
        } catch (TimeoutException e) {
          LOG.info("topic '{}' is not there", topic, e);
        } catch (RuntimeException e) {
          throw Clients.fault(properties, "looking up topics", e);
        }
      }
    }
    return Json.write(found);
  }

  /**
   * Makes topics: {@code {"properties":…,"topics":{"name":{"partitions":2,"configs":{}}}}}. The
   * answer says what is new and what was there: {@code {"created":["a"],"existing":["b"]}}.
   */
  public static String createTopics(String specJson) {
    Creation creation = Json.read(specJson, Creation.class);
    List<NewTopic> topics = new ArrayList<>();
    creation
        .topics()
        .forEach(
            (name, shape) ->
                topics.add(
                    new NewTopic(
                            name,
                            Optional.ofNullable(shape.partitions()),
                            Optional.ofNullable(shape.replicas()))
                        .configs(shape.configs())));
    return ask(
        creation.properties(),
        "creating topics",
        CREATE_TIMEOUT_MS,
        (admin, deadline) -> {
          TreeSet<String> created = new TreeSet<>();
          TreeSet<String> existing = new TreeSet<>();
          for (Map.Entry<String, KafkaFuture<Void>> topic :
              admin.createTopics(topics).values().entrySet()) {
            try {
              get(topic.getValue(), deadline);
              created.add(topic.getKey());
            } catch (TopicExistsException e) {
              existing.add(topic.getKey());
            }
          }
          return Json.write(new TreeMap<>(Map.of("created", created, "existing", existing)));
        });
  }

  /**
   * Ends what a killed job has left open under a transactional id prefix, {@code
   * {"properties":…,"prefix":"p"}}, so that readers need not wait for the first batch of its
   * successor. A broker that does not let us changes nothing: each writer does it for itself.
   */
  public static void endTransactions(String specJson, long timeoutMs) {
    Leftover leftover = Json.read(specJson, Leftover.class);
    Pattern ids = Pattern.compile(Pattern.quote(leftover.prefix()) + "-\\d+(\\.\\d+)?");
    ask(
        leftover.properties(),
        "ending transactions",
        timeoutMs,
        (admin, deadline) -> {
          try {
            ListTransactionsOptions open =
                new ListTransactionsOptions().filterStates(List.of(TransactionState.ONGOING));
            List<String> found =
                get(admin.listTransactions(open).all(), deadline).stream()
                    .map(TransactionListing::transactionalId)
                    .filter(id -> ids.matcher(id).matches())
                    .toList();
            if (!found.isEmpty()) {
              get(admin.fenceProducers(found).all(), deadline);
            }
          } catch (ApiException e) {
            LOG.info("open transactions of '{}' are left to its writers", leftover.prefix(), e);
          }
          return null;
        });
  }

  private interface Question<T> {
    T put(AdminClient admin, long deadline) throws Exception;
  }

  private static <T> T ask(
      Map<String, String> properties, String doing, long timeoutMs, Question<T> question) {
    long deadline = System.nanoTime() + timeoutMs * 1_000_000;
    AdminClient admin = Clients.admin(properties, timeoutMs);
    try {
      return Clients.call(properties, doing, () -> question.put(admin, deadline));
    } finally {
      admin.close(Duration.ZERO);
    }
  }

  /** The client keeps its own time only roughly; ours is what was promised. */
  private static <T> T get(KafkaFuture<T> future, long deadline) throws Exception {
    try {
      long left = Math.max(1, deadline - System.nanoTime());
      return future.get(left, TimeUnit.NANOSECONDS);
    } catch (ExecutionException e) {
      throw e.getCause() instanceof Exception cause ? cause : e;
    } catch (java.util.concurrent.TimeoutException e) {
      throw new TimeoutException(e);
    }
  }
}
