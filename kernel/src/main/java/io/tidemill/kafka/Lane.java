package io.tidemill.kafka;

import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;

/** The way of one task's rows to one table. */
interface Lane extends AutoCloseable {
  /** What a lane holds back at most, as {@link #size} has it. */
  long MOST_HELD = 32L << 20;

  void send(ProducerRecord<byte[], byte[]> record);

  /** Returns only when all that was sent is delivered as the table guarantees. */
  void commit();

  /** How many partitions a topic has, as far as the client knows. */
  int partitions(String topic);

  /** Without a commit before it, what was sent may or may not have been delivered. */
  @Override
  void close();

  /** About how much memory a record takes while it is held, objects around the bytes included. */
  static long size(ProducerRecord<byte[], byte[]> record) {
    long size = 160 + length(record.key()) + length(record.value());
    for (Header header : record.headers().toArray()) {
      size += 80 + header.key().length() + length(header.value());
    }
    return size;
  }

  private static int length(byte[] bytes) {
    return bytes == null ? 0 : bytes.length;
  }
}
