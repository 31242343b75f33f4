package io.tidemill.kafka;

import io.tidemill.Fault;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.InvalidOffsetException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A place in one partition, kept over batches with all that the client has fetched beyond it.
 *
 * <p>Law: {@link #next} gives every record of the range once and then null. The end is found by
 * the consumer's position, because the last offsets of a range may be transaction markers or
 * compacted away, and then no record ever carries them.
 */
final class Cursor implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(Cursor.class);
  private static final Duration POLL = Duration.ofMillis(500);
  private static final Duration PROBE = Duration.ofSeconds(5);

  private static final String LOSS_HINT =
      "start with a new checkpoint, or accept the loss: 'scan.on-data-loss' = 'warn'";

  /** What the broker says of a partition. */
  private enum Answer {
    THERE,
    REMOVED,
    NONE
  }

  private final SourceSpec spec;
  private final TopicPartition tp;
  private final KafkaConsumer<ByteBuffer, ByteBuffer> consumer;
  private final long timeoutMs;

  private List<String> said = new ArrayList<>();
  private List<ConsumerRecord<ByteBuffer, ByteBuffer>> fetched = List.of();
  private int at;
  private long position = -1;

  Cursor(SourceSpec spec, TopicPartition tp, boolean keys, boolean values) {
    this.spec = spec;
    this.tp = tp;
    this.consumer = Clients.consumer(spec, tp.toString(), keys, values);
    this.consumer.assign(List.of(tp));
    this.timeoutMs = Clients.timeoutMs(spec.properties());
  }

  /** Goes to an offset; costs nothing if the last range ended there. */
  void seek(long offset) {
    if (offset != position) {
      drop();
      consumer.seek(tp, offset);
      position = offset;
    }
  }

  /** The next record before {@code end}, or null when there is none. */
  ConsumerRecord<ByteBuffer, ByteBuffer> next(long end) {
    while (true) {
      if (at < fetched.size()) {
        ConsumerRecord<ByteBuffer, ByteBuffer> record = fetched.get(at);
        if (record.offset() >= end) {
          position = end;
          return null;
        }
        at++;
        position = record.offset() + 1;
        return record;
      }
      if (!fetch(end)) {
        position = end;
        return null;
      }
    }
  }

  /** What there is to tell the user since the last call; only the driver can. */
  List<String> takeNotices() {
    List<String> taken = said;
    said = new ArrayList<>();
    return taken;
  }

  @Override
  public void close() {
    try {
      consumer.close(Duration.ZERO);
    } catch (KafkaException e) {
      // Interrupted with its task; there is nothing left that could be lost.
      LOG.debug("consumer of {} closed with an error", tp, e);
    }
  }

  private void drop() {
    fetched = List.of();
    at = 0;
  }

  /** Polls until there are records, or the position has reached the end: then false. */
  private boolean fetch(long end) {
    drop();
    try {
      long reached = consumer.position(tp);
      long since = System.nanoTime();
      long probed = since;
      while (reached < end) {
        try {
          fetched = consumer.poll(POLL).records(tp);
        } catch (InvalidOffsetException e) {
          if (ask(reached, end, true) == Answer.REMOVED) {
            return false;
          }
          reached = consumer.position(tp);
          continue;
        }
        if (!fetched.isEmpty()) {
          return true;
        }
        long now = System.nanoTime();
        long moved = consumer.position(tp);
        if (moved != reached) {
          reached = moved;
          since = now;
          continue;
        }
        boolean isLate = now - since > timeoutMs * 1_000_000;
        if (isLate || now - probed > PROBE.toNanos()) {
          Answer answer = ask(reached, end, false);
          if (answer == Answer.REMOVED) {
            return false;
          }
          if (isLate) {
            throw answer == Answer.NONE ? new TimeoutException() : silent(reached, end);
          }
          probed = System.nanoTime();
          reached = consumer.position(tp);
        }
      }
      return false;
    } catch (RuntimeException e) {
      throw Clients.fault(
          spec.properties(), "table '" + spec.table() + "': reading partition " + tp, e);
    }
  }

  /** Whether the broker still has what the range needs; if not, the user's choice decides. */
  private Answer ask(long offset, long end, boolean refused) {
    long first;
    long last;
    try {
      first = consumer.beginningOffsets(Set.of(tp), PROBE).get(tp);
      last = consumer.endOffsets(Set.of(tp), PROBE).get(tp);
      if (last < end && spec.readsCommitted()) {
        // What a transaction that is open hides is there all the same.
        try (var watcher = Clients.watcher(spec, tp + "-watcher")) {
          last = watcher.endOffsets(Set.of(tp), PROBE).get(tp);
        }
      }
    } catch (TimeoutException e) {
      return isRemoved() ? Answer.REMOVED : Answer.NONE;
    }
    if (!refused && offset >= first && last >= end) {
      return Answer.THERE;
    }
    if (spec.failsOnDataLoss()) {
      throw dataLoss(spec, tp, offset, first, last);
    }
    long next = offset < first ? first : end;
    said.add(lostText(spec, tp, offset, next));
    consumer.seek(tp, next);
    return Answer.THERE;
  }

  private boolean isRemoved() {
    try {
      if (consumer.listTopics(PROBE).containsKey(tp.topic())) {
        return false;
      }
      said.add(Topics.goneText(spec, tp.topic()));
      return true;
    } catch (TimeoutException e) {
      Clients.sayAway(spec.properties());
      return false;
    }
  }

  /** For a table whose user accepts a loss. */
  static String lostText(SourceSpec spec, TopicPartition tp, long offset, long next) {
    return "table '%s': the records of partition %s from offset %d on are gone; reading goes on at %d"
        .formatted(spec.table(), tp, offset, next);
  }

  static Fault dataLoss(SourceSpec spec, TopicPartition tp, long offset, long first, long last) {
    return new Fault(
        Fault.DATA_LOSS,
        "table '%s': offset %d of partition %s is not there: the broker has %d to %d"
            .formatted(spec.table(), offset, tp, first, last),
        "records were deleted by retention; " + LOSS_HINT);
  }

  static Fault madeAnew(SourceSpec spec, TopicPartition tp, long offset) {
    return new Fault(
        Fault.DATA_LOSS,
        "table '%s': topic '%s' was made anew since partition %s was read up to offset %d"
            .formatted(spec.table(), tp.topic(), tp, offset),
        LOSS_HINT);
  }

  private Fault silent(long offset, long end) {
    return new Fault(
        Fault.FETCH_TIMEOUT,
        "table '%s': no record from topic '%s', partition %d, offset %d (wanted up to %d) in %d ms"
            .formatted(spec.table(), tp.topic(), tp.partition(), offset, end, timeoutMs),
        "the broker answers but does not deliver; look at its log, or give it more time with"
            + " 'properties.default.api.timeout.ms'");
  }
}
