package io.tidemill.state;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.expressions.UnsafeMapData;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeWriter;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimeType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.types.YearMonthIntervalType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * How the values of one SQL type look outside a row: as a {@link Word} of 64 bits, or else as {@link Bytes}.
 * Law: two values are equal exactly when their forms are, and the forms of an ordered type sort as SQL sorts it.
 * Rows handed in here lie in a byte array, as {@link PackedRow} makes them.
 */
sealed interface Value permits Value.Word, Value.Bytes {

  interface WordGetter {
    long get(SpecializedGetters row, int ordinal);
  }

  interface WordSetter {
    void set(UnsafeWriter row, int ordinal, long word);
  }

  /** A type of at most 64 bits; the signed order of the words is the order of the values. */
  record Word(WordGetter getter, WordSetter setter) implements Value {
    long get(SpecializedGetters row, int ordinal) {
      return getter.get(row, ordinal);
    }

    void set(UnsafeWriter row, int ordinal, long word) {
      setter.set(row, ordinal, word);
    }
  }

  /** A part of a byte array, reused from value to value. */
  final class Slice {
    byte[] bytes;
    int from;
    int length;

    void set(byte[] bytes, int from, int length) {
      this.bytes = bytes;
      this.from = from;
      this.length = length;
    }

    private void set(Object base, long offset, int length) {
      set((byte[]) base, (int) (offset - Platform.BYTE_ARRAY_OFFSET), length);
    }

    byte[] copy() {
      return Arrays.copyOfRange(bytes, from, from + length);
    }
  }

  interface BytesGetter {
    void get(SpecializedGetters row, int ordinal, Slice into);
  }

  interface BytesSetter {
    void set(UnsafeWriter row, int ordinal, byte[] bytes);
  }

  /** A longer type. {@code order} is null where SQL has no order. */
  record Bytes(BytesGetter getter, BytesSetter setter, Comparator<byte[]> order) implements Value {
    void get(SpecializedGetters row, int ordinal, Slice into) {
      getter.get(row, ordinal, into);
    }

    void set(UnsafeWriter row, int ordinal, byte[] bytes) {
      setter.set(row, ordinal, bytes);
    }
  }

  Word INT32 = new Word((r, i) -> r.getInt(i), (w, i, v) -> w.write(i, (int) v));
  Word INT64 = new Word(SpecializedGetters::getLong, (w, i, v) -> w.write(i, v));

  record Entry(Class<? extends DataType> type, Function<DataType, Value> value) {}

  List<Entry> TABLE =
      List.of(
          new Entry(
              BooleanType.class,
              t -> new Word((r, i) -> r.getBoolean(i) ? 1 : 0, (w, i, v) -> w.write(i, v != 0))),
          new Entry(ByteType.class, t -> new Word((r, i) -> r.getByte(i), (w, i, v) -> w.write(i, (byte) v))),
          new Entry(ShortType.class, t -> new Word((r, i) -> r.getShort(i), (w, i, v) -> w.write(i, (short) v))),
          new Entry(IntegerType.class, t -> INT32),
          new Entry(DateType.class, t -> INT32),
          new Entry(YearMonthIntervalType.class, t -> INT32),
          new Entry(LongType.class, t -> INT64),
          new Entry(TimestampType.class, t -> INT64),
          new Entry(TimestampNTZType.class, t -> INT64),
          new Entry(TimeType.class, t -> INT64),
          new Entry(DayTimeIntervalType.class, t -> INT64),
          new Entry(
              FloatType.class,
              t ->
                  new Word(
                      (r, i) -> ordered(r.getFloat(i)), (w, i, v) -> w.write(i, (float) unordered(v)))),
          new Entry(
              DoubleType.class,
              t -> new Word((r, i) -> ordered(r.getDouble(i)), (w, i, v) -> w.write(i, unordered(v)))),
          new Entry(DecimalType.class, t -> decimal((DecimalType) t)),
          new Entry(
              StringType.class,
              t ->
                  new Bytes(
                      Value::string,
                      (w, i, v) -> w.write(i, UTF8String.fromBytes(v)),
                      Arrays::compareUnsigned)),
          new Entry(
              BinaryType.class,
              t -> new Bytes(Value::binary, (w, i, v) -> w.write(i, v), Arrays::compareUnsigned)),
          new Entry(StructType.class, t -> nested(struct(((StructType) t).size()))),
          new Entry(ArrayType.class, t -> nested(Value::array)),
          new Entry(MapType.class, t -> nested(Value::map)));

  /** The form of a type's values, or null for a type that state cannot hold. */
  static Value of(DataType type) {
    for (Entry entry : TABLE) {
      if (entry.type().isInstance(type)) {
        return entry.value().apply(type);
      }
    }
    return null;
  }

  /** Bits that sort as {@link Double#compare} does; every NaN is one NaN. */
  static long ordered(double value) {
    long bits = Double.doubleToLongBits(value);
    return bits ^ ((bits >> 63) & Long.MAX_VALUE);
  }

  static double unordered(long word) {
    return Double.longBitsToDouble(word ^ ((word >> 63) & Long.MAX_VALUE));
  }

  private static Value decimal(DecimalType type) {
    int precision = type.precision();
    int scale = type.scale();
    if (precision <= Decimal.MAX_LONG_DIGITS()) {
      return new Word(
          (r, i) -> r.getDecimal(i, precision, scale).toUnscaledLong(),
          (w, i, v) -> w.write(i, Decimal.createUnsafe(v, precision, scale), precision, scale));
    }
    return new Bytes(
        (r, i, into) -> {
          byte[] bytes = r.getDecimal(i, precision, scale).toJavaBigDecimal().unscaledValue().toByteArray();
          into.set(bytes, 0, bytes.length);
        },
        (w, i, v) ->
            w.write(
                i,
                Decimal.apply(new BigDecimal(new BigInteger(v), scale), precision, scale),
                precision,
                scale),
        Comparator.comparing(BigInteger::new));
  }

  /** Rows within rows are bytes that lie in them. */
  private static Bytes nested(BytesGetter getter) {
    return new Bytes(getter, (w, i, v) -> w.write(i, v), null);
  }

  private static void string(SpecializedGetters row, int ordinal, Slice into) {
    UTF8String text = row.getUTF8String(ordinal);
    into.set(text.getBaseObject(), text.getBaseOffset(), text.numBytes());
  }

  private static void binary(SpecializedGetters row, int ordinal, Slice into) {
    byte[] bytes = row.getBinary(ordinal);
    into.set(bytes, 0, bytes.length);
  }

  private static void array(SpecializedGetters row, int ordinal, Slice into) {
    UnsafeArrayData array = (UnsafeArrayData) row.getArray(ordinal);
    into.set(array.getBaseObject(), array.getBaseOffset(), array.getSizeInBytes());
  }

  private static void map(SpecializedGetters row, int ordinal, Slice into) {
    UnsafeMapData map = (UnsafeMapData) row.getMap(ordinal);
    into.set(map.getBaseObject(), map.getBaseOffset(), map.getSizeInBytes());
  }

  private static BytesGetter struct(int fields) {
    return (row, ordinal, into) -> {
      UnsafeRow struct = (UnsafeRow) row.getStruct(ordinal, fields);
      into.set(struct.getBaseObject(), struct.getBaseOffset(), struct.getSizeInBytes());
    };
  }
}
