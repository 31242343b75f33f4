package io.tidemill.kafka;

import io.tidemill.Fault;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.function.Predicate;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.InvalidTxnTimeoutException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.spark.TaskOutputFileAlreadyExistException;

/**
 * The writers of exactly-once tables in this executor, kept over epochs.
 *
 * <p>Law: a transaction holds a writer's rows of one epoch and a marker with the epoch's number. The
 * marker is an offset of a consumer group that bears the writer's transactional id and the job's
 * id, so it is committed with the rows or not at all, and other jobs have other markers. A writer
 * that goes on from the epoch before needs to ask nobody. Any other begins by fencing its
 * predecessor, which ends what that one left open, and then reads the marker: it says whether the
 * epoch is on the broker. The rows of an epoch are the same in every attempt, and so are the rows
 * of each writer.
 */
final class Transactions {
  private static final long NONE = -1;

  /** Long enough to send what is held; what a killed job leaves open is over soon. */
  private static final long TIMEOUT_MS = Duration.ofMinutes(1).toMillis();

  /** For the attempt after that was too short: what a broker allows unless it is told otherwise. */
  private static final long PATIENT_TIMEOUT_MS = Duration.ofMinutes(15).toMillis();

  private static final long IDLE_NANOS = Duration.ofMinutes(5).toNanos();
  private static final Map<Id, Writer> IDLE = new HashMap<>();

  /** Those for whom a minute was not enough. */
  private static final Set<Id> SLOW = ConcurrentHashMap.newKeySet();

  static {
    Housekeeping.everyMinute("transactional producers", Transactions::closeIdle);
  }

  /** Which writer of which job. */
  record Id(String job, String transactionalId, SinkSpec.Target target) {
    String group() {
      return transactionalId + "@" + job;
    }
  }

  /** A transactional producer, and the last epoch that it knows to be on the broker. */
  static final class Writer implements AutoCloseable {
    private final Id id;
    private final KafkaProducer<byte[], byte[]> producer;
    private final long timeoutMs;
    private final long born = System.nanoTime();
    private boolean isOpen;
    private long begun;
    private long epoch = NONE;
    private long since;

    private Writer(Id id, long timeoutMs) {
      this.id = id;
      this.timeoutMs = Clients.transactionTimeoutMs(id.target().properties(), timeoutMs);
      this.producer = Clients.producer(id.target(), id.transactionalId(), this.timeoutMs);
    }

    KafkaProducer<byte[], byte[]> producer() {
      return producer;
    }

    long epoch() {
      return epoch;
    }

    void begin() {
      begun = System.nanoTime();
      isOpen = true;
      producer.beginTransaction();
    }

    /** Commits the open transaction with its marker, which needs the name of an existing topic. */
    void commit(String topic, long epoch) {
      producer.sendOffsetsToTransaction(
          Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(epoch, "tidemill epoch")),
          new ConsumerGroupMetadata(id.group()));
      producer.commitTransaction();
      isOpen = false;
      this.epoch = epoch;
    }

    /** What to throw for what the client says; a fenced producer says it in several ways. */
    RuntimeException fault(String topic, RuntimeException e) {
      SinkSpec.Target target = id.target();
      if (isDueTo(e, ProducerFencedException.class, InvalidProducerEpochException.class)) {
        // The broker fences, too, whose transaction it has ended; the client tells no difference.
        return isOpen && System.nanoTime() - begun >= timeoutMs * 1_000_000
            ? tooLong(e)
            : Clients.sneaky(fenced(e));
      }
      if (isDueTo(e, InvalidTxnTimeoutException.class)) {
        return new Fault(
            Fault.CLIENT_PROPERTY,
            "the broker allows no transaction as long as 'properties.transaction.timeout.ms'",
            "lower it, or raise 'transaction.max.timeout.ms' of the broker",
            e);
      }
      return Clients.fault(target.properties(), "writing", Delivery.fault(target, topic, e));
    }

    private Fault tooLong(RuntimeException e) {
      SLOW.add(id);
      return new Fault(
          Fault.TRANSACTION_TOO_LONG,
          "table '%s': a transaction was open for longer than %d s, and the broker has ended it"
              .formatted(id.target().table(), timeoutMs / 1000),
          "raise 'properties.transaction.timeout.ms', which the broker's"
              + " 'transaction.max.timeout.ms' limits, or lower 'scan.max-rows-per-batch'",
          e);
    }

    /**
     * A second attempt of the task would take the ids back, and stop the job that has them now.
     * After this exception Spark makes none; it looks at nothing but its class.
     */
    private TaskOutputFileAlreadyExistException fenced(RuntimeException e) {
      SinkSpec.Target target = id.target();
      return new TaskOutputFileAlreadyExistException(
          new Fault(
              Fault.FENCED,
              "table '%s': another job has taken over the transactional ids '%s-…'"
                  .formatted(target.table(), target.transactionalIdPrefix()),
              "run one job with this 'sink.transactional-id-prefix' at a time, or give each its own",
              e));
    }

    @Override
    public void close() {
      producer.close(Duration.ZERO);
    }
  }

  private Transactions() {}

  /**
   * The writer for an epoch, for one task alone. Its {@link Writer#epoch} is this epoch if the rows
   * are on the broker already.
   *
   * @param isRetry whether another attempt of the same task may have written
   */
  static Writer take(Id id, long epoch, boolean isRetry) {
    Writer kept;
    synchronized (Transactions.class) {
      kept = IDLE.remove(id);
    }
    if (kept != null && kept.epoch == epoch - 1 && !isRetry) {
      return kept;
    }
    if (kept != null) {
      kept.close();
    }
    Writer writer = new Writer(id, SLOW.contains(id) ? PATIENT_TIMEOUT_MS : TIMEOUT_MS);
    try {
      writer.producer.initTransactions();
      writer.epoch = marker(id);
      if (writer.epoch > epoch) {
        throw new Fault(
            Fault.OLD_CHECKPOINT,
            "table '%s': batch %d is on the broker, and the checkpoint is at batch %d"
                .formatted(id.target().table(), writer.epoch, epoch),
            "the checkpoint is an old copy: going on from it would write rows twice or not at all;"
                + " start with a new --checkpoint");
      }
      return writer;
    } catch (Exception e) {
      writer.close();
      if (isDueTo(e, InvalidTxnTimeoutException.class) && SLOW.remove(id)) {
        // This broker allows less.
        return take(id, epoch, isRetry);
      }
      throw e instanceof RuntimeException failed
          ? writer.fault(id.target().topic(), failed)
          : Clients.sneaky(e);
    }
  }

  @SafeVarargs
  private static boolean isDueTo(Throwable e, Class<? extends Throwable>... kinds) {
    for (Throwable t = e; t != null; t = t.getCause()) {
      for (Class<?> kind : kinds) {
        if (kind.isInstance(t)) {
          return true;
        }
      }
    }
    return false;
  }

  /** Keeps a writer for the next epoch; of two, the younger, because it has fenced the other. */
  static void give(Writer writer) {
    Writer older;
    synchronized (Transactions.class) {
      writer.since = System.nanoTime();
      older = IDLE.get(writer.id);
      if (older != null && older.born > writer.born) {
        older = writer;
      } else {
        IDLE.put(writer.id, writer);
      }
    }
    if (older != null) {
      older.close();
    }
  }

  /** An epoch without rows for a writer: it need not be asked for later. */
  static synchronized void pass(Id id, long epoch) {
    Writer kept = IDLE.get(id);
    if (kept != null && kept.epoch == epoch - 1) {
      kept.epoch = epoch;
      kept.since = System.nanoTime();
    }
  }

  /** The last epoch of this job that the writer has committed. */
  private static long marker(Id id) {
    Map<String, String> properties = id.target().properties();
    long timeoutMs = Clients.timeoutMs(properties);
    AdminClient admin = Clients.admin(properties, timeoutMs);
    try {
      return Clients.call(
          properties,
          "table '" + id.target().table() + "': reading the marker of '" + id.transactionalId() + "'",
          () -> {
            long last = NONE;
            ListConsumerGroupOffsetsOptions stable =
                new ListConsumerGroupOffsetsOptions().requireStable(true);
            try {
              for (OffsetAndMetadata offset :
                  admin
                      .listConsumerGroupOffsets(id.group(), stable)
                      .partitionsToOffsetAndMetadata()
                      .get()
                      .values()) {
                last = offset == null ? last : Math.max(last, offset.offset());
              }
            } catch (ExecutionException e) {
              if (!(e.getCause() instanceof GroupIdNotFoundException)) {
                throw e;
              }
            }
            return last;
          });
    } finally {
      admin.close(Duration.ZERO);
    }
  }

  private static void closeIdle() {
    long now = System.nanoTime();
    close(writer -> now - writer.since > IDLE_NANOS);
  }

  /** Closes the writers of a job that has ended, as far as they are in this JVM. */
  static void release(String job) {
    close(writer -> writer.id.job().equals(job));
  }

  private static void close(Predicate<Writer> unwanted) {
    List<Writer> closing = new ArrayList<>();
    synchronized (Transactions.class) {
      IDLE.values().removeIf(writer -> unwanted.test(writer) && closing.add(writer));
    }
    closing.forEach(Writer::close);
  }
}
