package io.tidemill.kafka;

import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Rows of one epoch that become visible together, once.
 *
 * <p>They are held until the task commits, so that a reader of committed records waits for this
 * transaction as short a time as can be; only when they are too many to hold does the transaction
 * begin before, and then it lasts as long as the task. An epoch that is on the broker already takes
 * its rows and drops them.
 */
final class TransactionLane implements Lane {
  private final SinkSpec.Target target;
  private final long epoch;
  private final Transactions.Writer writer;
  private final Delivery delivery;
  private final boolean isWritten;
  private final List<ProducerRecord<byte[], byte[]>> held = new ArrayList<>();
  private long heldBytes;
  private long sent;
  private boolean isBegun;
  private boolean isDone;
  private String topic;

  TransactionLane(Transactions.Id id, long epoch, boolean isRetry) {
    this.target = id.target();
    this.epoch = epoch;
    this.delivery = new Delivery(target);
    this.writer = Transactions.take(id, epoch, isRetry);
    this.isWritten = writer.epoch() == epoch;
  }

  @Override
  public void send(ProducerRecord<byte[], byte[]> record) {
    if (isWritten) {
      return;
    }
    if (isBegun) {
      guarded(record.topic(), () -> writer.producer().send(record, delivery));
      sent++;
      return;
    }
    if (topic == null) {
      topic = record.topic();
    }
    held.add(record);
    heldBytes += Lane.size(record);
    if (heldBytes > MOST_HELD) {
      begin();
    }
  }

  @Override
  public void commit() {
    if (!isWritten) {
      if (!isBegun) {
        begin();
      }
      guarded(
          topic,
          () -> {
            // The commit itself would not name a record that was refused.
            delivery.await(sent);
            writer.commit(topic, epoch);
          });
    }
    isDone = true;
  }

  @Override
  public int partitions(String topic) {
    int[] count = new int[1];
    guarded(topic, () -> count[0] = writer.producer().partitionsFor(topic).size());
    return count[0];
  }

  @Override
  public void close() {
    if (isDone) {
      Transactions.give(writer);
    } else {
      // Not aborted here: whoever takes this id next does that, and then asks what was committed.
      writer.close();
    }
  }

  private void begin() {
    isBegun = true;
    guarded(
        topic,
        () -> {
          writer.begin();
          for (ProducerRecord<byte[], byte[]> record : held) {
            writer.producer().send(record, delivery);
          }
        });
    sent = held.size();
    held.clear();
  }

  private void guarded(String topic, Runnable action) {
    try {
      delivery.check();
      action.run();
    } catch (RuntimeException e) {
      throw writer.fault(topic, e);
    }
  }
}
