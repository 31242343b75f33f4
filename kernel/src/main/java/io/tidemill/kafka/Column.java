package io.tidemill.kafka;

import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
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

/** The columns of a Kafka record, each with its type and the way its value gets into a row. */
enum Column {
  KEY("key", DataTypes.BinaryType, true) {
    @Override
    void write(
        UnsafeRowWriter row,
        int at,
        ConsumerRecord<ByteBuffer, ByteBuffer> record,
        UTF8String topic) {
      writeBytes(row, at, record.key());
    }
  },
  VALUE("value", DataTypes.BinaryType, true) {
    @Override
    void write(
        UnsafeRowWriter row,
        int at,
        ConsumerRecord<ByteBuffer, ByteBuffer> record,
        UTF8String topic) {
      writeBytes(row, at, record.value());
    }
  },
  TOPIC("topic", DataTypes.StringType, false) {
    @Override
    void write(
        UnsafeRowWriter row,
        int at,
        ConsumerRecord<ByteBuffer, ByteBuffer> record,
        UTF8String topic) {
      row.write(at, topic);
    }
  },
  PARTITION("partition", DataTypes.IntegerType, false) {
    @Override
    void write(
        UnsafeRowWriter row,
        int at,
        ConsumerRecord<ByteBuffer, ByteBuffer> record,
        UTF8String topic) {
      row.write(at, record.partition());
    }
  },
  OFFSET("offset", DataTypes.LongType, false) {
    @Override
    void write(
        UnsafeRowWriter row,
        int at,
        ConsumerRecord<ByteBuffer, ByteBuffer> record,
        UTF8String topic) {
      row.write(at, record.offset());
    }
  },
  TIMESTAMP("timestamp", DataTypes.TimestampType, false) {
    @Override
    void write(
        UnsafeRowWriter row,
        int at,
        ConsumerRecord<ByteBuffer, ByteBuffer> record,
        UTF8String topic) {
      row.write(at, record.timestamp() * 1000);
    }
  },
  TIMESTAMP_TYPE("timestamp_type", DataTypes.StringType, false) {
    @Override
    void write(
        UnsafeRowWriter row,
        int at,
        ConsumerRecord<ByteBuffer, ByteBuffer> record,
        UTF8String topic) {
      row.write(at, TYPES[record.timestampType().ordinal()]);
    }
  },
  LEADER_EPOCH("leader_epoch", DataTypes.IntegerType, true) {
    @Override
    void write(
        UnsafeRowWriter row,
        int at,
        ConsumerRecord<ByteBuffer, ByteBuffer> record,
        UTF8String topic) {
      if (record.leaderEpoch().isPresent()) {
        row.write(at, record.leaderEpoch().get().intValue());
      } else {
        row.setNullAt(at);
      }
    }
  },
  HEADERS(
      "headers",
      DataTypes.createMapType(DataTypes.StringType, DataTypes.BinaryType, true),
      false) {
    @Override
    void write(
        UnsafeRowWriter row,
        int at,
        ConsumerRecord<ByteBuffer, ByteBuffer> record,
        UTF8String topic) {
      writeHeaders(row, at, record.headers());
    }
  };

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

  Column(String label, DataType type, boolean nullable) {
    this.label = label;
    this.type = type;
    this.nullable = nullable;
  }

  /**
   * Writes the value of this column into field {@code at}.
   *
   * @param topic the record's topic, which is the same for all records of a task
   */
  abstract void write(
      UnsafeRowWriter row,
      int at,
      ConsumerRecord<ByteBuffer, ByteBuffer> record,
      UTF8String topic);

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
    if (!headers.iterator().hasNext()) {
      row.write(at, NO_HEADERS);
      return;
    }
    // A record may repeat a header, a map may not: the last one counts.
    Map<String, byte[]> last = new LinkedHashMap<>();
    for (Header header : headers) {
      last.put(header.key(), header.value());
    }
    writeMap(row, at, last);
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
}
