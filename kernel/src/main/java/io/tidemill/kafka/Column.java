package io.tidemill.kafka;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.IntVector;
import org.apache.arrow.vector.TimeStampMicroTZVector;
import org.apache.arrow.vector.VarBinaryVector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.arrow.vector.complex.ListVector;
import org.apache.arrow.vector.complex.MapVector;
import org.apache.arrow.vector.complex.StructVector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.record.TimestampType;
import org.apache.spark.sql.catalyst.expressions.UnsafeMapData;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeArrayWriter;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** The columns of a Kafka record, each with its type and its ways into a row and into a block. */
enum Column {
  KEY(
      "key",
      DataTypes.BinaryType,
      true,
      (row, at, record, topic) -> writeBytes(row, at, record.key()),
      (vector, at, record, topic) -> setBytes(vector, at, record.key())),
  VALUE(
      "value",
      DataTypes.BinaryType,
      true,
      (row, at, record, topic) -> writeBytes(row, at, record.value()),
      (vector, at, record, topic) -> setBytes(vector, at, record.value())),
  TOPIC(
      "topic",
      DataTypes.StringType,
      false,
      (row, at, record, topic) -> row.write(at, topic),
      (vector, at, record, topic) -> setText(vector, at, topic)),
  PARTITION(
      "partition",
      DataTypes.IntegerType,
      false,
      (row, at, record, topic) -> row.write(at, record.partition()),
      (vector, at, record, topic) -> ((IntVector) vector).setSafe(at, record.partition())),
  /** A number for the partition among those of several topics. */
  ORIGIN(
      "origin",
      DataTypes.IntegerType,
      false,
      (row, at, record, topic) -> row.write(at, origin(record, topic)),
      (vector, at, record, topic) -> ((IntVector) vector).setSafe(at, origin(record, topic))),
  OFFSET(
      "offset",
      DataTypes.LongType,
      false,
      (row, at, record, topic) -> row.write(at, record.offset()),
      (vector, at, record, topic) -> ((BigIntVector) vector).setSafe(at, record.offset())),
  TIMESTAMP(
      "timestamp",
      DataTypes.TimestampType,
      false,
      (row, at, record, topic) -> row.write(at, record.timestamp() * 1000),
      (vector, at, record, topic) ->
          ((TimeStampMicroTZVector) vector).setSafe(at, record.timestamp() * 1000)),
  TIMESTAMP_TYPE(
      "timestamp_type",
      DataTypes.StringType,
      false,
      (row, at, record, topic) -> row.write(at, typeOf(record)),
      (vector, at, record, topic) -> setText(vector, at, typeOf(record))),
  LEADER_EPOCH(
      "leader_epoch",
      DataTypes.IntegerType,
      true,
      (row, at, record, topic) -> {
        if (record.leaderEpoch().isPresent()) {
          row.write(at, record.leaderEpoch().get().intValue());
        } else {
          row.setNullAt(at);
        }
      },
      (vector, at, record, topic) -> {
        if (record.leaderEpoch().isPresent()) {
          ((IntVector) vector).setSafe(at, record.leaderEpoch().get());
        } else {
          vector.setNull(at);
        }
      }),
  HEADERS(
      "headers",
      DataTypes.createMapType(DataTypes.StringType, DataTypes.BinaryType, true),
      false,
      (row, at, record, topic) -> writeHeaders(row, at, record.headers()),
      (vector, at, record, topic) -> setHeaders((MapVector) vector, at, record.headers())),
  HEADER_LIST(
      "header_list",
      DataTypes.createArrayType(
          DataTypes.createStructType(
              new StructField[] {
                DataTypes.createStructField("key", DataTypes.StringType, false),
                DataTypes.createStructField("value", DataTypes.BinaryType, true)
              }),
          false),
      false,
      (row, at, record, topic) -> writeHeaderList(row, at, record.headers()),
      (vector, at, record, topic) -> setHeaderList((ListVector) vector, at, record.headers()));

  /** Writes a value into field {@code at} of a row; the topic is the same for all records of a task. */
  private interface RowForm {
    void write(
        UnsafeRowWriter row,
        int at,
        ConsumerRecord<ByteBuffer, ByteBuffer> record,
        UTF8String topic);
  }

  /** Writes a value into place {@code at} of a vector. */
  private interface BlockForm {
    void set(
        FieldVector vector,
        int at,
        ConsumerRecord<ByteBuffer, ByteBuffer> record,
        UTF8String topic);
  }

  private static final UnsafeMapData NO_HEADERS = emptyMap();
  private static final UTF8String[] TYPES = new UTF8String[TimestampType.values().length];

  static {
    for (TimestampType type : TimestampType.values()) {
      TYPES[type.ordinal()] = UTF8String.fromString(type.name);
    }
  }

  private final String label;
  private final DataType type;
  private final boolean nullable;
  private final RowForm row;
  private final BlockForm block;

  Column(String label, DataType type, boolean nullable, RowForm row, BlockForm block) {
    this.label = label;
    this.type = type;
    this.nullable = nullable;
    this.row = row;
    this.block = block;
  }

  void write(
      UnsafeRowWriter writer,
      int at,
      ConsumerRecord<ByteBuffer, ByteBuffer> record,
      UTF8String topic) {
    row.write(writer, at, record, topic);
  }

  void set(
      FieldVector vector,
      int at,
      ConsumerRecord<ByteBuffer, ByteBuffer> record,
      UTF8String topic) {
    block.set(vector, at, record, topic);
  }

  static Column of(String label) {
    for (Column column : values()) {
      if (column.label.equals(label)) {
        return column;
      }
    }
    throw new IllegalArgumentException("a Kafka record has no column '" + label + "'");
  }

  /** The named columns in this order; all of them for null. */
  static Column[] of(List<String> labels) {
    return labels == null ? values() : labels.stream().map(Column::of).toArray(Column[]::new);
  }

  static StructType schema(Column[] columns) {
    StructField[] fields = new StructField[columns.length];
    for (int i = 0; i < fields.length; i++) {
      Column column = columns[i];
      fields[i] = DataTypes.createStructField(column.label, column.type, column.nullable);
    }
    return DataTypes.createStructType(fields);
  }

  /** The partitions of a topic are neighbours, so that they never meet each other, and other topics' seldom. */
  private static int origin(ConsumerRecord<ByteBuffer, ByteBuffer> record, UTF8String topic) {
    return topic.hashCode() + record.partition();
  }

  private static UTF8String typeOf(ConsumerRecord<ByteBuffer, ByteBuffer> record) {
    return TYPES[record.timestampType().ordinal()];
  }

  private static UnsafeMapData emptyMap() {
    UnsafeRowWriter row = new UnsafeRowWriter(1);
    row.reset();
    row.zeroOutNullBytes();
    writeMap(row, 0, Map.of());
    return row.getRow().getMap(0);
  }

  private static void writeBytes(UnsafeRowWriter row, int at, ByteBuffer bytes) {
    if (bytes == null) {
      row.setNullAt(at);
    } else if (bytes.hasArray()) {
      row.write(at, bytes.array(), bytes.arrayOffset() + bytes.position(), bytes.remaining());
    } else {
      byte[] copy = new byte[bytes.remaining()];
      bytes.duplicate().get(copy);
      row.write(at, copy);
    }
  }

  private static void writeHeaders(UnsafeRowWriter row, int at, Headers headers) {
    if (headers.iterator().hasNext()) {
      writeMap(row, at, lastOf(headers));
    } else {
      row.write(at, NO_HEADERS);
    }
  }

  /** A record may repeat a header, a map may not: the last one counts. */
  private static Map<String, byte[]> lastOf(Headers headers) {
    Map<String, byte[]> last = new LinkedHashMap<>();
    for (Header header : headers) {
      last.put(header.key(), header.value());
    }
    return last;
  }

  private static void writeHeaderList(UnsafeRowWriter row, int at, Headers headers) {
    Header[] all = headers.toArray();
    int start = row.cursor();
    UnsafeArrayWriter list = new UnsafeArrayWriter(row, 8);
    list.initialize(all.length);
    UnsafeRowWriter entry = new UnsafeRowWriter(list, 2);
    for (int i = 0; i < all.length; i++) {
      int from = list.cursor();
      entry.resetRowWriter();
      entry.write(0, UTF8String.fromString(all[i].key()));
      if (all[i].value() == null) {
        entry.setNullAt(1);
      } else {
        entry.write(1, all[i].value());
      }
      list.setOffsetAndSizeFromPreviousCursor(i, from);
    }
    row.setOffsetAndSizeFromPreviousCursor(at, start);
  }

  /** A map in Spark's own layout: the size of the keys in 8 bytes, the keys, the values. */
  private static void writeMap(UnsafeRowWriter row, int at, Map<String, byte[]> entries) {
    int start = row.cursor();
    row.grow(8);
    row.increaseCursor(8);
    UnsafeArrayWriter keyWriter = new UnsafeArrayWriter(row, 8);
    keyWriter.initialize(entries.size());
    int i = 0;
    for (String key : entries.keySet()) {
      keyWriter.write(i++, UTF8String.fromString(key));
    }
    Platform.putLong(row.getBuffer(), start, row.cursor() - start - 8);
    UnsafeArrayWriter valueWriter = new UnsafeArrayWriter(row, 8);
    valueWriter.initialize(entries.size());
    i = 0;
    for (byte[] value : entries.values()) {
      if (value == null) {
        valueWriter.setNull8Bytes(i++);
      } else {
        valueWriter.write(i++, value);
      }
    }
    row.setOffsetAndSizeFromPreviousCursor(at, start);
  }

  private static void setBytes(FieldVector vector, int at, ByteBuffer bytes) {
    if (bytes == null) {
      vector.setNull(at);
    } else if (bytes.hasArray()) {
      int start = bytes.arrayOffset() + bytes.position();
      ((VarBinaryVector) vector).setSafe(at, bytes.array(), start, bytes.remaining());
    } else {
      ((VarBinaryVector) vector).setSafe(at, bytes, bytes.position(), bytes.remaining());
    }
  }

  private static void setText(FieldVector vector, int at, UTF8String text) {
    ((VarCharVector) vector).setSafe(at, text.getBytes());
  }

  private static void setHeaders(MapVector vector, int at, Headers headers) {
    StructVector entries = (StructVector) vector.getDataVector();
    int entry = vector.startNewValue(at);
    Map<String, byte[]> last = lastOf(headers);
    for (Map.Entry<String, byte[]> header : last.entrySet()) {
      setHeader(entries, entry++, header.getKey(), header.getValue());
    }
    vector.endValue(at, last.size());
  }

  private static void setHeaderList(ListVector vector, int at, Headers headers) {
    StructVector entries = (StructVector) vector.getDataVector();
    int start = vector.startNewValue(at);
    int entry = start;
    for (Header header : headers) {
      setHeader(entries, entry++, header.key(), header.value());
    }
    vector.endValue(at, entry - start);
  }

  private static void setHeader(StructVector entries, int at, String key, byte[] value) {
    entries.setIndexDefined(at);
    ((VarCharVector) entries.getVectorById(0)).setSafe(at, key.getBytes(StandardCharsets.UTF_8));
    VarBinaryVector values = (VarBinaryVector) entries.getVectorById(1);
    if (value == null) {
      values.setNull(at);
    } else {
      values.setSafe(at, value);
    }
  }
}
