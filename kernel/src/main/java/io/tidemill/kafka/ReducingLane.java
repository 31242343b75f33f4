package io.tidemill.kafka;

import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Of the changes of a key only the last is passed on, as long as it takes to hold so many keys, so
 * many bytes or so much time, and before the task commits at the latest.
 *
 * <p>The time is looked at when a change comes; it needs no timer. A batch's rows are on the broker
 * already when its tasks begin, so that changes follow each other as fast as they can be worked on,
 * and when none is left the task commits. Between batches nothing is held.
 */
final class ReducingLane implements Lane {
  private record Key(String topic, ByteBuffer bytes) {}

  private final Lane next;
  private final SinkSpec.Buffer buffer;
  private final Map<Key, ProducerRecord<byte[], byte[]>> held = new LinkedHashMap<>();
  private long heldBytes;
  private long since;

  ReducingLane(Lane next, SinkSpec.Buffer buffer) {
    this.next = next;
    this.buffer = buffer;
  }

  @Override
  public void send(ProducerRecord<byte[], byte[]> record) {
    if (record.key() == null) {
      next.send(record);
      return;
    }
    if (held.isEmpty()) {
      since = System.nanoTime();
    }
    Key key = new Key(record.topic(), ByteBuffer.wrap(record.key()));
    // Removed first, so that records leave in the order of their last changes.
    ProducerRecord<byte[], byte[]> before = held.remove(key);
    held.put(key, record);
    heldBytes += Lane.size(record) - (before == null ? 0 : Lane.size(before));
    if (held.size() >= buffer.maxRows()
        || heldBytes > MOST_HELD
        || System.nanoTime() - since >= buffer.intervalMs() * 1_000_000) {
      flush();
    }
  }

  @Override
  public void commit() {
    flush();
    next.commit();
  }

  @Override
  public int partitions(String topic) {
    return next.partitions(topic);
  }

  @Override
  public void close() {
    next.close();
  }

  private void flush() {
    held.values().forEach(next::send);
    held.clear();
    heldBytes = 0;
  }
}
