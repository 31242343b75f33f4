package io.tidemill.kafka;

import io.tidemill.Fault;
import io.tidemill.files.PartFiles;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Writes the rows of one task. Runs per row.
 *
 * <p>Law: {@link #commit} returns only when every row is delivered as its table guarantees. What
 * that means is the matter of a {@link Lane}, one for each table that the task meets.
 */
final class KafkaWriter implements DataWriter<InternalRow> {
  private final SinkSpec spec;
  private final KafkaWrite.Layout layout;
  private final Lane[] lanes;
  private final int number;
  private final long epoch;
  private final long[] rows;
  private final long[] bytes;
  private final Map<Integer, List<String>> lines = new HashMap<>();
  private final Map<Integer, PartFiles> files = new TreeMap<>();
  // By sink. Decoding and checking a topic name for every row would cost more than sending it.
  private final List<Map<UTF8String, String>> topics = new ArrayList<>();
  private final Map<String, Integer> partitionCounts = new HashMap<>();

  KafkaWriter(SinkSpec spec, KafkaWrite.Layout layout, int number, long epoch) {
    this.spec = spec;
    this.layout = layout;
    this.number = number;
    this.epoch = epoch;
    int sinks = spec.sinks().size();
    this.lanes = new Lane[sinks];
    this.rows = new long[sinks];
    this.bytes = new long[sinks];
    for (int i = 0; i < sinks; i++) {
      topics.add(new HashMap<>());
    }
  }

  @Override
  public void write(InternalRow row) {
    int sink = isNull(row, layout.sink()) ? 0 : row.getInt(layout.sink());
    SinkSpec.Target target = spec.sinks().get(sink);
    rows[sink]++;
    if (!target.isKafka()) {
      if (target.isPrint()) {
        lines.computeIfAbsent(sink, s -> new ArrayList<>()).add(line(row));
      } else if (target.isFiles()) {
        byte[] line = row.getBinary(layout.value());
        String partition = isNull(row, layout.topic()) ? "" : row.getUTF8String(layout.topic()).toString();
        files.computeIfAbsent(sink, this::partFiles).write(partition, line);
        bytes[sink] += line.length;
      }
      return;
    }
    byte[] key = isNull(row, layout.key()) ? null : row.getBinary(layout.key());
    byte[] value = isNull(row, layout.value()) ? null : row.getBinary(layout.value());
    Long timestamp =
        isNull(row, layout.timestamp())
            ? null
            : Math.floorDiv(row.getLong(layout.timestamp()), 1000);
    String topic = topic(row, sink);
    Lane lane = lanes[sink];
    if (lane == null) {
      lane = lanes[sink] = lane(sink);
    }
    Integer partition = partition(row, target, lane, topic);
    if (timestamp != null && timestamp < 0) {
      throw new Fault(
          Fault.SEND_FAILED,
          "table '%s': a record of topic '%s' has a timestamp before 1970"
              .formatted(target.table(), topic),
          "Kafka cannot store it: correct or filter the timestamp column");
    }
    lane.send(new ProducerRecord<>(topic, partition, timestamp, key, value, headers(row)));
    bytes[sink] += (key == null ? 0 : key.length) + (value == null ? 0 : value.length);
  }

  @Override
  public WriterCommitMessage commit() {
    for (int i = 0; i < lanes.length; i++) {
      if (lanes[i] != null) {
        lanes[i].commit();
      } else if (spec.sinks().get(i).isTransactional()) {
        Transactions.pass(id(i), epoch);
      }
    }
    files.forEach((sink, parts) -> lines.put(sink, parts.commit()));
    return new Written.Message(rows, bytes, lines);
  }

  @Override
  public void abort() {}

  @Override
  public void close() {
    for (int i = 0; i < lanes.length; i++) {
      if (lanes[i] != null) {
        lanes[i].close();
        lanes[i] = null;
      }
    }
    files.values().forEach(PartFiles::close);
    files.clear();
  }

  private PartFiles partFiles(int sink) {
    SinkSpec.Target target = spec.sinks().get(sink);
    String name = "part-%s-%d-%d-%d".formatted(spec.job(), sink, epoch, number);
    return new PartFiles(target.table(), target.path(), name);
  }

  /** The row's kind, which stands in its column for the partition, and its text. */
  private String line(InternalRow row) {
    String text = new String(row.getBinary(layout.value()), StandardCharsets.UTF_8);
    return row.getInt(layout.partition()) + text;
  }

  private Lane lane(int sink) {
    SinkSpec.Target target = spec.sinks().get(sink);
    Lane lane;
    if (target.isTransactional()) {
      TaskContext task = TaskContext.get();
      boolean isRetry = task != null && task.attemptNumber() + task.stageAttemptNumber() > 0;
      lane = new TransactionLane(id(sink), epoch, isRetry);
    } else {
      lane = new PlainLane(spec.job(), target);
    }
    return target.buffer() == null ? lane : new ReducingLane(lane, target.buffer());
  }

  private Transactions.Id id(int sink) {
    return new Transactions.Id(
        spec.job(), spec.transactionalId(sink, number), spec.sinks().get(sink));
  }

  private Integer partition(InternalRow row, SinkSpec.Target target, Lane lane, String topic) {
    boolean isNamed = !isNull(row, layout.partition());
    if (!isNamed && !target.isFixed()) {
      return null;
    }
    int partition = isNamed ? row.getInt(layout.partition()) : number;
    int count = partitionCounts.computeIfAbsent(topic, lane::partitions);
    if (target.isFixed()) {
      return partition % count;
    }
    if (partition < 0 || partition >= count) {
      // Partitions may have been added. The client would wait a minute for one that never comes.
      count = lane.partitions(topic);
      partitionCounts.put(topic, count);
      if (partition < 0 || partition >= count) {
        throw new Fault(
            Fault.SEND_FAILED,
            "table '%s': topic '%s' has no partition %d: it has %d"
                .formatted(target.table(), topic, partition, count),
            null);
      }
    }
    return partition;
  }

  private String topic(InternalRow row, int sink) {
    SinkSpec.Target target = spec.sinks().get(sink);
    if (!isNull(row, layout.topic())) {
      UTF8String name = row.getUTF8String(layout.topic());
      String known = topics.get(sink).get(name);
      if (known == null) {
        known = name.toString();
        if (!target.takes(known)) {
          throw new Fault(
              Fault.SEND_FAILED,
              "table '%s': a row names topic '%s', which is not one of the table's"
                  .formatted(target.table(), known),
              target.topicPattern() == null
                  ? "the topics of the table are " + String.join(", ", target.topics())
                  : "the topics of the table match " + target.topicPattern());
        }
        // The row's bytes will be overwritten by the next row.
        topics.get(sink).put(name.copy(), known);
      }
      return known;
    }
    if (target.topic() == null) {
      throw new Fault(
          Fault.SEND_FAILED,
          "table '" + target.table() + "': a row has no topic, and the table no single one",
          "give every row a non-null 'topic' metadata column");
    }
    return target.topic();
  }

  private List<Header> headers(InternalRow row) {
    if (!isNull(row, layout.headerList())) {
      return headerList(row.getArray(layout.headerList()));
    }
    if (isNull(row, layout.headers())) {
      return null;
    }
    MapData map = row.getMap(layout.headers());
    ArrayData keys = map.keyArray();
    ArrayData values = map.valueArray();
    List<Header> headers = new ArrayList<>(map.numElements());
    for (int i = 0; i < map.numElements(); i++) {
      byte[] value = values.isNullAt(i) ? null : values.getBinary(i);
      headers.add(new RecordHeader(keys.getUTF8String(i).toString(), value));
    }
    return headers;
  }

  /** As they stand, equal keys included; Kafka knows no header without a key. */
  private static List<Header> headerList(ArrayData list) {
    List<Header> headers = new ArrayList<>(list.numElements());
    for (int i = 0; i < list.numElements(); i++) {
      InternalRow entry = list.isNullAt(i) ? null : list.getStruct(i, 2);
      if (entry != null && !entry.isNullAt(0)) {
        byte[] value = entry.isNullAt(1) ? null : entry.getBinary(1);
        headers.add(new RecordHeader(entry.getUTF8String(0).toString(), value));
      }
    }
    return headers;
  }

  private static boolean isNull(InternalRow row, int at) {
    return at < 0 || row.isNullAt(at);
  }
}
