package io.tidemill.kafka;

import com.fasterxml.jackson.annotation.JsonIgnore;
import io.tidemill.Fault;
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
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.DescribeConsumerGroupsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.GroupAuthorizationException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.TransactionalIdAuthorizationException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What the planner asks a broker before a job starts. JSON in, JSON out. */
public final class Admin {
  private static final Logger LOG = LoggerFactory.getLogger(Admin.class);
  private static final long CREATE_TIMEOUT_MS = 30_000;

  /** After so long without an answer it is worth a look whether broker and client speak the same. */
  private static final long DOUBT_NANOS = 2_000_000_000L;

  private static final String LOOKING_UP = "looking up topics";

  private record Wanted(Map<String, String> properties, List<String> topics, String topicPattern) {}

  private record Asked(
      Map<String, String> properties, List<String> groups, List<String> transactionalIds) {}

  /** Operations by group, and what is refused altogether; what the broker does not tell is left out. */
  record Rights(
      Map<String, Set<String>> groups, Set<String> refusedGroups, Set<String> refusedIds) {}

  private record Creation(Map<String, String> properties, Map<String, Shape> topics) {}

  private record Shape(Integer partitions, Short replicas, Map<String, String> configs) {}

  private record Leftover(Map<String, String> properties, String prefix) {}

  /**
   * Partitions by topic, the topics that do not exist, what the user may do with the others, and ids by
   * topic; the latter two from brokers that tell them.
   */
  record Found(
      Map<String, Integer> topics,
      Set<String> missing,
      Map<String, Set<String>> operations,
      @JsonIgnore Map<String, String> ids) {}

  /** Topics to write to; whether the broker makes a topic that is asked for, null if it does not say. */
  record Targets(
      Map<String, Integer> topics,
      Set<String> missing,
      Map<String, Set<String>> operations,
      Set<String> compacted,
      Boolean createsTopics) {}

  private Admin() {}

  /**
   * The partitions of topics: {@code {"topics":{"name":2},"missing":["x"],"operations":{"name":
   * ["READ"]}}}, for {@code {"properties":…,"topics":[…]}} or {@code
   * {"properties":…,"topicPattern":"regex"}}.
   */
  public static String describeTopics(String specJson, long timeoutMs) {
    Wanted wanted = Json.read(specJson, Wanted.class);
    return Json.write(
        find(
            wanted.properties(), LOOKING_UP, wanted.topics(), wanted.topicPattern(), timeoutMs));
  }

  /**
   * What {@link #describeTopics} says, and what a sink must know beside it: {@code
   * {…,"compacted":["name"],"createsTopics":true}}.
   */
  public static String describeTargets(String specJson, long timeoutMs) {
    Wanted wanted = Json.read(specJson, Wanted.class);
    Found found =
        find(wanted.properties(), LOOKING_UP, wanted.topics(), wanted.topicPattern(), timeoutMs);
    return ask(
        wanted.properties(),
        LOOKING_UP,
        timeoutMs,
        (admin, answers) -> {
          Set<String> compacted = new TreeSet<>();
          for (String topic : found.topics().keySet()) {
            String policy =
                setting(admin, ConfigResource.Type.TOPIC, topic, "cleanup.policy", answers);
            // A broker that does not say gets the benefit of the doubt.
            if (policy == null || policy.contains("compact")) {
              compacted.add(topic);
            }
          }
          Boolean creates = null;
          if (!found.missing().isEmpty()) {
            String node = answers.get(admin.describeCluster().controller()).idString();
            String said =
                setting(
                    admin,
                    ConfigResource.Type.BROKER,
                    node,
                    "auto.create.topics.enable",
                    answers);
            creates = said == null ? null : Boolean.valueOf(said);
          }
          return Json.write(
              new Targets(
                  found.topics(), found.missing(), found.operations(), compacted, creates));
        });
  }

  /** One setting of a topic or broker; null if we may not know it. */
  private static String setting(
      AdminClient admin, ConfigResource.Type type, String name, String key, Answers answers)
      throws Exception {
    ConfigResource resource = new ConfigResource(type, name);
    try {
      ConfigEntry entry =
          answers.get(admin.describeConfigs(List.of(resource)).values().get(resource)).get(key);
      return entry == null ? null : entry.value();
    } catch (AuthorizationException e) {
      return null;
    }
  }

  /** Asks the broker itself; a consumer would answer from what it knew five minutes ago. */
  static Found find(
      Map<String, String> properties,
      String doing,
      List<String> topics,
      String topicPattern,
      long timeoutMs) {
    return ask(
        properties,
        doing,
        timeoutMs,
        (admin, answers) -> {
          Collection<String> names = topics;
          if (names == null) {
            Pattern pattern = Pattern.compile(topicPattern);
            names = new ArrayList<>(answers.get(admin.listTopics().names()));
            names.removeIf(name -> !pattern.matcher(name).matches());
          }
          Found found =
              new Found(new TreeMap<>(), new TreeSet<>(), new TreeMap<>(), new TreeMap<>());
          DescribeTopicsOptions told = new DescribeTopicsOptions().includeAuthorizedOperations(true);
          for (Map.Entry<String, KafkaFuture<TopicDescription>> topic :
              admin.describeTopics(names, told).topicNameValues().entrySet()) {
            try {
              TopicDescription there = answers.get(topic.getValue());
              found.topics().put(topic.getKey(), there.partitions().size());
              if (there.authorizedOperations() != null) {
                found.operations().put(topic.getKey(), names(there.authorizedOperations()));
              }
              if (!Uuid.ZERO_UUID.equals(there.topicId())) {
                found.ids().put(topic.getKey(), there.topicId().toString());
              }
            } catch (UnknownTopicOrPartitionException | InvalidTopicException e) {
              found.missing().add(topic.getKey());
            } catch (TopicAuthorizationException e) {
              // Not every version of the client says which.
              throw new TopicAuthorizationException(Set.of(topic.getKey()));
            }
          }
          return found;
        });
  }

  private static Set<String> names(Set<AclOperation> operations) {
    Set<String> names = new TreeSet<>();
    operations.forEach(operation -> names.add(operation.name()));
    return names;
  }

  /**
   * What the user may do with groups and transactional ids: {@code {"groups":{"g":["READ"]},
   * "refusedGroups":["h"],"refusedIds":["id"]}}, for {@code
   * {"properties":…,"groups":[…],"transactionalIds":[…]}}. Nothing is changed at the broker, so that of an
   * id it is only known whether it may be seen; who may not see it may not write with it.
   */
  public static String describeRights(String specJson, long timeoutMs) {
    Asked asked = Json.read(specJson, Asked.class);
    return ask(
        asked.properties(),
        "asking for rights",
        timeoutMs,
        (admin, answers) -> {
          Rights rights = new Rights(new TreeMap<>(), new TreeSet<>(), new TreeSet<>());
          DescribeConsumerGroupsOptions told =
              new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true);
          for (Map.Entry<String, KafkaFuture<ConsumerGroupDescription>> group :
              admin.describeConsumerGroups(asked.groups(), told).describedGroups().entrySet()) {
            try {
              ConsumerGroupDescription there = answers.get(group.getValue());
              if (there.authorizedOperations() != null) {
                rights.groups().put(group.getKey(), names(there.authorizedOperations()));
              }
            } catch (GroupAuthorizationException e) {
              rights.refusedGroups().add(group.getKey());
            } catch (AuthorizationException | AuthenticationException | TimeoutException e) {
              throw e;
            } catch (ApiException e) {
              LOG.info("group '{}' is not described", group.getKey(), e);
            }
          }
          for (String id : asked.transactionalIds()) {
            try {
              answers.get(admin.describeTransactions(List.of(id)).description(id));
            } catch (TransactionalIdAuthorizationException e) {
              rights.refusedIds().add(id);
            } catch (AuthorizationException | AuthenticationException | TimeoutException e) {
              throw e;
            } catch (ApiException e) {
              LOG.info("transactional id '{}' is not described", id, e);
            }
          }
          return Json.write(rights);
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
          throw Clients.fault(properties, LOOKING_UP, e);
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
        (admin, answers) -> {
          TreeSet<String> created = new TreeSet<>();
          TreeSet<String> existing = new TreeSet<>();
          for (Map.Entry<String, KafkaFuture<Void>> topic :
              admin.createTopics(topics).values().entrySet()) {
            try {
              answers.get(topic.getValue());
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
        (admin, answers) -> {
          try {
            ListTransactionsOptions open =
                new ListTransactionsOptions().filterStates(List.of(TransactionState.ONGOING));
            List<String> found =
                answers.get(admin.listTransactions(open).all()).stream()
                    .map(TransactionListing::transactionalId)
                    .filter(id -> ids.matcher(id).matches())
                    .toList();
            if (!found.isEmpty()) {
              answers.get(admin.fenceProducers(found).all());
            }
          } catch (ApiException | Fault e) {
            LOG.info("open transactions of '{}' are left to its writers", leftover.prefix(), e);
          }
          return null;
        });
  }

  private interface Question<T> {
    T put(AdminClient admin, Answers answers) throws Exception;
  }

  private static <T> T ask(
      Map<String, String> properties, String doing, long timeoutMs, Question<T> question) {
    long deadline = System.nanoTime() + timeoutMs * 1_000_000;
    AdminClient admin = Clients.admin(properties, timeoutMs);
    try {
      Answers answers = new Answers(properties, doing, deadline);
      return Clients.call(properties, doing, () -> question.put(admin, answers));
    } finally {
      admin.close(Duration.ZERO);
    }
  }

  /** Waits for the answers to one question. The client keeps its own time only roughly; ours is what was promised. */
  private static final class Answers {
    private final Map<String, String> properties;
    private final String doing;
    private final long deadline;
    private boolean isHeard;

    Answers(Map<String, String> properties, String doing, long deadline) {
      this.properties = properties;
      this.doing = doing;
      this.deadline = deadline;
    }

    <T> T get(KafkaFuture<T> future) throws Exception {
      try {
        T answer = isHeard ? within(future, deadline) : doubtful(future);
        isHeard = true;
        return answer;
      } catch (ExecutionException e) {
        throw e.getCause() instanceof Exception cause ? cause : e;
      } catch (java.util.concurrent.TimeoutException e) {
        throw Clients.away(properties, doing, new TimeoutException(e));
      }
    }

    /** The first answer: one who is not understood is hung up on, and would wait for it in vain. */
    private <T> T doubtful(KafkaFuture<T> future) throws Exception {
      try {
        return within(future, Math.min(deadline, System.nanoTime() + DOUBT_NANOS));
      } catch (java.util.concurrent.TimeoutException e) {
        Fault mismatch = Listener.mismatch(properties, doing);
        if (mismatch != null) {
          throw mismatch;
        }
        if (OldBroker.isBeforeVersions(properties)) {
          throw OldBroker.fault(properties, doing);
        }
        return within(future, deadline);
      }
    }

    private static <T> T within(KafkaFuture<T> future, long deadline) throws Exception {
      long left = Math.max(1, deadline - System.nanoTime());
      return future.get(left, TimeUnit.NANOSECONDS);
    }
  }
}
