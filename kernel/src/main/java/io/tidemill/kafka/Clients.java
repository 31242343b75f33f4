package io.tidemill.kafka;

import io.tidemill.Fault;
import io.tidemill.Notices;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.ByteBufferDeserializer;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskOutputFileAlreadyExistException;

/**
 * Kafka clients from the user's properties, and their complaints as faults.
 *
 * <p>The properties reach the client as they are, except the few that the engine must own, and
 * with defaults chosen for throughput where the user says nothing.
 */
final class Clients {
  private static final Pattern SECRET =
      Pattern.compile("(?i).*(password|secret|jaas|token|credential|\\.key$|private).*");
  private static final Pattern QUOTED =
      Pattern.compile("(?:([\\w.]+)\\s*=\\s*)?(?:\"((?:\\\\.|[^\"\\\\])+)\"|'((?:\\\\.|[^'\\\\])+)')");
  private static final Pattern CONFIGURATION = Pattern.compile("configuration '?([\\w.-]+?)'?[:,.]?(\\s|$)");

  /** What a JAAS line says that is no secret, and helps whoever has to find out what is wrong. */
  private static final Set<String> SHOWN =
      Set.of("username", "principal", "keytab", "ticketcache", "servicename", "clientid", "scope");

  /** Logins that ask a third party, which may be away for longer than anybody wants to wait. */
  private static final Set<String> SLOW_LOGINS = Set.of("GSSAPI", "OAUTHBEARER");

  private static final long LOGIN_SECONDS = 12;

  private static final String TWO_MINUTES = "120000";

  /**
   * What one transactional producer may hold of what is under way. There is one for each writer,
   * where a table without transactions has one for all; the rows of a batch wait in front of it.
   */
  private static final String TRANSACTIONAL_MEMORY = "33554432";

  private static final Map<String, String> CONSUMER_DEFAULTS =
      Map.of(
          "max.poll.records", "5000",
          "receive.buffer.bytes", "1048576",
          "allow.auto.create.topics", "false",
          "default.api.timeout.ms", TWO_MINUTES);

  private static final Map<String, String> PRODUCER_DEFAULTS =
      Map.of(
          "acks", "all",
          "linger.ms", "20",
          "batch.size", "262144",
          "buffer.memory", "67108864");

  private Clients() {}

  /** A value that no column reads is never copied out of the fetched bytes. */
  private static final class Unread implements Deserializer<ByteBuffer> {
    @Override
    public ByteBuffer deserialize(String topic, byte[] data) {
      return null;
    }

    @Override
    public ByteBuffer deserialize(String topic, Headers headers, ByteBuffer data) {
      return null;
    }
  }

  /**
   * A consumer that hands out keys and values as views of the fetched bytes.
   *
   * @param role tells the consumers of one table apart in the client id
   */
  static KafkaConsumer<ByteBuffer, ByteBuffer> consumer(
      SourceSpec spec, String role, boolean keys, boolean values) {
    return consumer(spec, Map.of(), role, keys, values);
  }

  /** A consumer to ask about offsets, which sees behind transactions that are open. */
  static KafkaConsumer<ByteBuffer, ByteBuffer> watcher(SourceSpec spec, String role) {
    Map<String, String> all = Map.of("isolation.level", "read_uncommitted");
    return consumer(spec, all, role, false, false);
  }

  private static KafkaConsumer<ByteBuffer, ByteBuffer> consumer(
      SourceSpec spec,
      Map<String, String> own,
      String role,
      boolean keys,
      boolean values) {
    Map<String, Object> config = new HashMap<>(CONSUMER_DEFAULTS);
    if (spec.defaultGroup() != null) {
      config.put("group.id", spec.defaultGroup());
    }
    config.putAll(Shipped.placed(spec.properties()));
    config.put("client.id", clientId(spec.properties(), spec.table(), role));
    config.put("enable.auto.commit", "false");
    // Which offset to read is never the client's decision.
    config.put("auto.offset.reset", "none");
    config.putAll(own);
    config.remove("key.deserializer");
    config.remove("value.deserializer");
    return create(
        spec.properties(),
        () ->
            new KafkaConsumer<>(
                Kerberos.settled(config),
                keys ? new ByteBufferDeserializer() : new Unread(),
                values ? new ByteBufferDeserializer() : new Unread()));
  }

  /**
   * A producer of bytes.
   *
   * @param more what the engine wants beside, over the user's word
   */
  private static KafkaProducer<byte[], byte[]> producer(
      Map<String, String> properties, String table, String role, Map<String, String> more) {
    Map<String, Object> config = new HashMap<>(PRODUCER_DEFAULTS);
    config.putAll(Shipped.placed(properties));
    config.remove("transactional.id");
    config.putAll(more);
    config.put("client.id", clientId(properties, table, role));
    config.remove("key.serializer");
    config.remove("value.serializer");
    return create(
        properties,
        () ->
            new KafkaProducer<>(
                Kerberos.settled(config), new ByteArraySerializer(), new ByteArraySerializer()));
  }

  static KafkaProducer<byte[], byte[]> producer(Map<String, String> properties, String table) {
    return producer(properties, table, "sink", Map.of());
  }

  static KafkaProducer<byte[], byte[]> producer(
      SinkSpec.Target target, String transactionalId, long timeoutMs) {
    Map<String, String> given = target.properties();
    return producer(
        given,
        target.table(),
        transactionalId,
        Map.of(
            "transactional.id", transactionalId,
            "transaction.timeout.ms", Long.toString(timeoutMs),
            // All rows of a batch are sent at once; nothing is gained by waiting for more.
            "linger.ms", given.getOrDefault("linger.ms", "2"),
            "buffer.memory", given.getOrDefault("buffer.memory", TRANSACTIONAL_MEMORY),
            "enable.idempotence", "true",
            "acks", "all"));
  }

  static AdminClient admin(Map<String, String> properties, long timeoutMs) {
    Map<String, Object> config = new HashMap<>(Shipped.placed(properties));
    config.put("client.id", clientId(properties, "tidemill", "admin"));
    config.put("default.api.timeout.ms", Long.toString(timeoutMs));
    config.put("request.timeout.ms", Long.toString(timeoutMs));
    return create(properties, () -> AdminClient.create(Kerberos.settled(config)));
  }

  private static String clientId(Map<String, String> properties, String table, String role) {
    String prefix = properties.getOrDefault("client.id", "tidemill-" + table);
    return prefix + "-" + role;
  }

  /** Tells the user that a broker is away and that it is waited for. */
  static void sayAway(Map<String, String> properties) {
    String servers = properties.get("bootstrap.servers");
    Notices.sayOnceAMinute(
        "away " + servers, "no answer from the broker at " + servers + "; waiting for it");
  }

  /** How long to wait for a broker: the user's word, else two minutes. */
  static long timeoutMs(Map<String, String> properties) {
    return millis(properties, "default.api.timeout.ms", TWO_MINUTES);
  }

  /** How long a producer tries to write a record: the user's word, else two minutes. */
  static long deliveryTimeoutMs(Map<String, String> properties) {
    return millis(properties, "delivery.timeout.ms", TWO_MINUTES);
  }

  /** How long the broker lets a transaction last: the user's word, else what is given. */
  static long transactionTimeoutMs(Map<String, String> properties, long otherwise) {
    return millis(properties, "transaction.timeout.ms", Long.toString(otherwise));
  }

  private static long millis(Map<String, String> properties, String property, String otherwise) {
    try {
      return Long.parseLong(properties.getOrDefault(property, otherwise).trim());
    } catch (NumberFormatException e) {
      throw new Fault(
          Fault.CLIENT_PROPERTY, "'properties." + property + "' is not a number", null);
    }
  }

  /** Runs a call to a client; what goes wrong comes out as a Fault. */
  static <T> T call(Map<String, String> properties, String doing, Callable<T> body) {
    try {
      return body.call();
    } catch (Exception e) {
      throw fault(properties, doing, e);
    }
  }

  /**
   * What to throw for a client's exception. A stop of the query interrupts the client; Spark knows
   * its own stop only by InterruptedException, so that is what it gets.
   */
  static RuntimeException fault(Map<String, String> properties, String doing, Throwable thrown) {
    Throwable e = thrown instanceof ExecutionException ? thrown.getCause() : thrown;
    if (e instanceof InterruptException || e instanceof InterruptedException) {
      Thread.interrupted();
      throw sneaky(new InterruptedException(doing));
    }
    if (e instanceof Fault fault) {
      return once(fault);
    }
    Fault refused = Refusals.of(properties, doing, e);
    if (refused == null && e instanceof TimeoutException) {
      refused = Listener.mismatch(properties, doing);
    }
    if (refused != null) {
      return once(refused);
    }
    if (OldBroker.isBehind(properties, e)) {
      return OldBroker.fault(properties, doing);
    }
    if (e instanceof TimeoutException) {
      return away(properties, doing, e);
    }
    String servers = properties.get("bootstrap.servers");
    if (e instanceof UnknownTopicOrPartitionException) {
      return new Fault(
          Fault.TOPIC_MISSING, doing + ": the topic or partition does not exist at " + servers,
          "create the topic, or correct the option 'topic'", e);
    }
    if (e instanceof RuntimeException runtime && !(e instanceof KafkaException)) {
      return runtime;
    }
    return new Fault(
        Fault.BROKER_UNREACHABLE,
        doing + " at " + servers + " failed: " + scrub(properties, String.valueOf(e.getMessage())),
        null,
        e);
  }

  /** Nobody answers. */
  static Fault away(Map<String, String> properties, String doing, Throwable e) {
    return new Fault(
        Fault.BROKER_UNREACHABLE,
        doing + ": no answer from the broker at " + properties.get("bootstrap.servers"),
        "check properties.bootstrap.servers, and that the broker runs and its advertised"
            + " listeners can be reached from here",
        e);
  }

  /**
   * A refusal in a task: another attempt would be refused as well, so Spark is to make none. After
   * this exception it does not; it looks at nothing but its class.
   */
  static RuntimeException once(Fault fault) {
    if (fault.code().equals(Fault.ACCESS_DENIED) && TaskContext.get() != null) {
      throw sneaky(new TaskOutputFileAlreadyExistException(fault));
    }
    return fault;
  }

  /** Makes a client, within a time also if its login has to ask somebody. */
  private static <T extends AutoCloseable> T timely(
      Map<String, String> properties, Supplier<T> constructor) {
    String mechanism = Listener.mechanism(properties);
    if (!Listener.isSasl(Listener.protocol(properties)) || !SLOW_LOGINS.contains(mechanism)) {
      return constructor.get();
    }
    CompletableFuture<T> made = new CompletableFuture<>();
    Runnable login =
        () -> {
          try {
            T client = constructor.get();
            if (!made.complete(client)) {
              client.close();
            }
          } catch (Throwable e) {
            made.completeExceptionally(e);
          }
        };
    Thread thread = new Thread(login, "tidemill-login");
    thread.setDaemon(true);
    thread.start();
    try {
      return made.get(LOGIN_SECONDS, TimeUnit.SECONDS);
    } catch (ExecutionException e) {
      throw sneaky(e.getCause());
    } catch (InterruptedException e) {
      made.cancel(false);
      throw new InterruptException(e);
    } catch (java.util.concurrent.TimeoutException e) {
      made.cancel(false);
      boolean isKerberos = mechanism.equals("GSSAPI");
      throw new Fault(
          Fault.BROKER_UNREACHABLE,
          "the login by %s for %s has not ended in %d s: no answer from %s"
              .formatted(
                  mechanism,
                  properties.get("bootstrap.servers"),
                  LOGIN_SECONDS,
                  isKerberos ? "the KDC" : "the token endpoint"),
          isKerberos
              ? "check the KDC in krb5.conf, and that it runs and can be reached from here"
              : "check 'properties.sasl.oauthbearer.token.endpoint.url'",
          new TimeoutException());
    }
  }

  /** Constructors complain by quoting values, so their exceptions are not passed on. */
  private static <T extends AutoCloseable> T create(
      Map<String, String> properties, Supplier<T> constructor) {
    String servers = properties.get("bootstrap.servers");
    try {
      return timely(properties, constructor);
    } catch (InterruptException e) {
      throw fault(properties, "connecting to " + servers, e);
    } catch (KafkaException e) {
      Throwable root = e;
      while (root.getCause() != null && root.getCause() != root) {
        root = root.getCause();
      }
      String said = String.valueOf(root.getMessage());
      if (said.contains("bootstrap.servers")) {
        boolean isUnknown = said.startsWith("No resolvable") || said.startsWith("Unknown host");
        throw new Fault(
            Fault.BROKER_UNREACHABLE,
            "no broker can be reached at " + servers + ": the name is not known, or not an address",
            "correct properties.bootstrap.servers: host:port, several separated by commas",
            isUnknown ? new UnknownHostException(servers) : null);
      }
      Fault refused = Refusals.unmade(properties, e);
      if (refused != null) {
        throw once(refused);
      }
      Matcher named = CONFIGURATION.matcher(said);
      throw new Fault(
          Fault.CLIENT_PROPERTY,
          root instanceof ConfigException && named.find()
              ? "the Kafka client does not accept the value of 'properties." + named.group(1) + "'"
              : "the Kafka client for " + servers + " cannot be made: " + scrub(properties, said),
          "the properties of the Java client of Kafka 3.9 are meant");
    }
  }

  /** A text of the client without the values of properties that may be secret. */
  static String scrub(Map<String, String> properties, String text) {
    if (text == null) {
      return "no reason given";
    }
    for (Map.Entry<String, String> property : properties.entrySet()) {
      String value = property.getValue();
      if (value == null || value.isBlank() || !SECRET.matcher(property.getKey()).matches()) {
        continue;
      }
      text = text.replace(value, "***");
      Matcher quoted = QUOTED.matcher(value);
      while (quoted.find()) {
        String name = quoted.group(1) == null ? "" : quoted.group(1).toLowerCase(Locale.ROOT);
        if (!SHOWN.contains(name)) {
          String hidden = quoted.group(2) == null ? quoted.group(3) : quoted.group(2);
          // The client shows it without its escapes.
          text = text.replace(hidden, "***").replace(hidden.replaceAll("\\\\(.)", "$1"), "***");
        }
      }
    }
    return text;
  }

  @SuppressWarnings("unchecked")
  static <E extends Throwable> RuntimeException sneaky(Throwable e) throws E {
    throw (E) e;
  }
}
