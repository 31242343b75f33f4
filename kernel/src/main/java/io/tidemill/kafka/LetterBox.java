package io.tidemill.kafka;

import java.io.Serializable;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.spark.TaskContext;

/**
 * The way of dead letters to their topic, for one task: every task has a copy of its own.
 *
 * <p>Law: a task ends well only when the broker has all its dead letters, so that a batch is never
 * committed without them.
 */
public final class LetterBox implements Serializable {
  private final SinkSpec spec;
  private transient Lane lane;

  private LetterBox(SinkSpec spec) {
    this.spec = spec;
  }

  /** {@code spec}: the topic for dead letters, in the form of a write to one sink. */
  public static LetterBox of(String spec) {
    return new LetterBox(Json.read(spec, SinkSpec.class));
  }

  /** Called in a task. */
  public void send(byte[] key, byte[] value, Iterable<Header> headers) {
    if (lane == null) {
      open(TaskContext.get());
    }
    lane.send(new ProducerRecord<>(spec.sinks().get(0).topic(), null, null, key, value, headers));
  }

  private void open(TaskContext task) {
    Lane opened = lane(task);
    lane = opened;
    task.addTaskCompletionListener(
        ended -> {
          lane = null;
          try (opened) {
            if (!ended.isFailed() && !ended.isInterrupted()) {
              opened.commit();
            }
          }
        });
  }

  private Lane lane(TaskContext task) {
    SinkSpec.Target target = spec.sinks().get(0);
    if (!target.isTransactional()) {
      return new PlainLane(spec.job(), target);
    }
    // A task has the same rows in every attempt of its batch.
    String id = spec.transactionalId(0, task.partitionId());
    long epoch = Long.parseLong(task.getLocalProperty("streaming.sql.batchId"));
    boolean isRetry = task.attemptNumber() + task.stageAttemptNumber() > 0;
    return new TransactionLane(new Transactions.Id(spec.job(), id, target), epoch, isRetry);
  }
}
