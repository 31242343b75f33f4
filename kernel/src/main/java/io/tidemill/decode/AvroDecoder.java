package io.tidemill.decode;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;

/** A record of Avro without header, its fields one after the other as the table's columns are. */
final class AvroDecoder extends Decoder {
  private static final VarHandle INTS =
      MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
  private static final VarHandle LONGS =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
  private static final long MOST_MILLIS = Long.MAX_VALUE / 1000;

  private final Field[] fields;
  private final Put[] puts;
  private byte[] in;
  private int at;
  private int end;

  AvroDecoder(Spec spec) {
    this.fields = spec.fields().toArray(Field[]::new);
    this.puts = spec.fields().stream().map(this::put).toArray(Put[]::new);
  }

  @Override
  public int read(byte[] bytes, int from, int to, UnsafeRowWriter[] rows) {
    in = bytes;
    at = from;
    end = to;
    UnsafeRowWriter row = rows[0];
    for (int i = 0; i < fields.length; i++) {
      Field field = fields[i];
      if (field.nullable()) {
        // Flink's schemas have null as the first of two branches.
        long branch = integer(0, 1);
        if (branch == 0) {
          if (field.at() != null) {
            row.setNullAt(field.at());
          }
          continue;
        }
      }
      puts[i].put(row);
    }
    if (at != end) {
      throw Unsure.UNSURE;
    }
    return 1;
  }

  private interface Put {
    void put(UnsafeRowWriter row);
  }

  /** What takes a field and, if it has a place, puts it there. */
  private Put put(Field field) {
    boolean wanted = field.at() != null;
    int place = wanted ? field.at() : -1;
    return switch (field.type()) {
      case "BOOLEAN" ->
          row -> {
            int value = in[take(1)];
            if (value != 0 && value != 1) {
              throw Unsure.UNSURE;
            }
            if (wanted) {
              row.write(place, value == 1);
            }
          };
      case "TINYINT" ->
          row -> {
            long value = integer(Byte.MIN_VALUE, Byte.MAX_VALUE);
            if (wanted) {
              row.write(place, (byte) value);
            }
          };
      case "SMALLINT" ->
          row -> {
            long value = integer(Short.MIN_VALUE, Short.MAX_VALUE);
            if (wanted) {
              row.write(place, (short) value);
            }
          };
      case "INT", "DATE" ->
          row -> {
            long value = integer(Integer.MIN_VALUE, Integer.MAX_VALUE);
            if (wanted) {
              row.write(place, (int) value);
            }
          };
      case "BIGINT" ->
          row -> {
            long value = number();
            if (wanted) {
              row.write(place, value);
            }
          };
      case "TIMESTAMP", "TIMESTAMP_LTZ" ->
          row -> {
            long millis = number(-MOST_MILLIS, MOST_MILLIS);
            if (wanted) {
              row.write(place, millis * 1000);
            }
          };
      case "FLOAT" ->
          row -> {
            float value = Float.intBitsToFloat((int) INTS.get(in, take(4)));
            if (wanted) {
              row.write(place, value);
            }
          };
      case "DOUBLE" ->
          row -> {
            double value = Double.longBitsToDouble((long) LONGS.get(in, take(8)));
            if (wanted) {
              row.write(place, value);
            }
          };
      case "STRING" ->
          row -> {
            int length = (int) number(0, Integer.MAX_VALUE);
            int start = take(length);
            if (wanted) {
              checkText(start, length);
              row.write(place, in, start, length);
            }
          };
      default -> throw new IllegalArgumentException("the kernel reads no " + field.type());
    };
  }

  private void checkText(int start, int length) {
    int high = 0;
    for (int i = start; i < start + length; i++) {
      high |= in[i];
    }
    if (high < 0) {
      Texts.checkUtf8(in, start, length);
    }
  }

  /** Moves on by so many bytes; gives the place of the first. */
  private int take(int bytes) {
    if (bytes > end - at) {
      throw Unsure.UNSURE;
    }
    int start = at;
    at += bytes;
    return start;
  }

  /** An Avro int, which may have idle bytes, but no more than five in all. */
  private long integer(long least, long most) {
    int start = at;
    long value = number(least, most);
    if (at - start > 5) {
      throw Unsure.UNSURE;
    }
    return value;
  }

  private long number(long least, long most) {
    long value = number();
    if (value < least || value > most) {
      throw Unsure.UNSURE;
    }
    return value;
  }

  private long number() {
    long value = 0;
    for (int shift = 0; shift < 63; shift += 7) {
      byte b = in[take(1)];
      value |= (long) (b & 0x7f) << shift;
      if (b >= 0) {
        return value >>> 1 ^ -(value & 1);
      }
    }
    throw Unsure.UNSURE; // a tenth byte
  }
}
