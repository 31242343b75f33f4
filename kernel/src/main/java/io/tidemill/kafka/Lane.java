package io.tidemill.kafka;

import org.apache.kafka.clients.producer.ProducerRecord;

/** The way of one task's rows to one table. */
interface Lane extends AutoCloseable {
  void send(ProducerRecord<byte[], byte[]> record);

  /** Returns only when all that was sent is delivered as the table guarantees. */
  void commit();

  /** How many partitions a topic has, as far as the client knows. */
  int partitions(String topic);

  /** Without a commit before it, what was sent may or may not have been delivered. */
  @Override
  void close();
}
