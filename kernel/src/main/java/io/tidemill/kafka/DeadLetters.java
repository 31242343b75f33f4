package io.tidemill.kafka;

import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;

/**
 * Takes the records that could not be read out of a stream and writes them to a topic.
 *
 * <p>Law: a task ends well only when the broker has all its dead letters, so that a batch is never
 * committed without them. They leave in the task that has read the records: a second branch of the
 * query would read and decode every topic twice.
 */
public final class DeadLetters {
  private static final String COLUMN = "_bad";

  private DeadLetters() {}

  /**
   * The rows whose column {@code _bad} is NULL, without it; the others are dead letters.
   *
   * @param spec the table and its dead-letter topic, in the form of a write to one sink
   */
  public static Dataset<Row> divert(Dataset<Row> rows, String spec) {
    Divert divert = new Divert(Json.read(spec, SinkSpec.class));
    // Not deterministic: Spark must neither repeat it nor move a filter past it.
    var isRow = functions.udf(divert, DataTypes.BooleanType).asNondeterministic();
    return rows.filter(isRow.apply(functions.col(COLUMN))).drop(COLUMN);
  }

  /** Every task has a copy of its own. */
  private static final class Divert implements UDF1<Row, Boolean> {
    private final SinkSpec spec;
    private transient Lane lane;

    Divert(SinkSpec spec) {
      this.spec = spec;
    }

    @Override
    public Boolean call(Row bad) {
      if (bad == null) {
        return true;
      }
      if (lane == null) {
        open(TaskContext.get());
      }
      List<Header> headers = new ArrayList<>();
      for (Row header : bad.<Row>getList(2)) {
        headers.add(new RecordHeader(header.getString(0), header.<byte[]>getAs(1)));
      }
      lane.send(
          new ProducerRecord<>(
              spec.sinks().get(0).topic(),
              null,
              null,
              bad.<byte[]>getAs(0),
              bad.<byte[]>getAs(1),
              headers));
      return false;
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
        return new PlainLane(target);
      }
      // A task reads the same range of the same partition in every attempt of its batch.
      String id = spec.transactionalId(0, task.partitionId());
      long epoch = Long.parseLong(task.getLocalProperty("streaming.sql.batchId"));
      boolean isRetry = task.attemptNumber() + task.stageAttemptNumber() > 0;
      return new TransactionLane(new Transactions.Id(spec.job(), id, target), epoch, isRetry);
    }
  }
}
