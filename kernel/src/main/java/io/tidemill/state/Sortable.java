package io.tidemill.state;

import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeWriter;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;

/**
 * The values of a type as keys of a {@link Bag}. Law: equal values have equal bytes, and the bytes of an ordered type
 * sort, unsigned, as SQL sorts it. The bytes lie in state and may not change.
 */
record Sortable(Getter getter, Value.BytesSetter setter) {
  interface Getter {
    byte[] get(SpecializedGetters row, int ordinal);
  }

  // The widest decimal has 38 digits, which 127 bits and a sign hold.
  private static final int WIDE = 16;

  byte[] get(SpecializedGetters row, int ordinal) {
    return getter.get(row, ordinal);
  }

  void set(UnsafeWriter out, int ordinal, byte[] bytes) {
    setter.set(out, ordinal, bytes);
  }

  /** The form of a type's values, or null for a type that state cannot hold. */
  static Sortable of(DataType type) {
    Value value = Value.of(type);
    if (value instanceof Value.Word word) {
      return new Sortable(
          (r, i) -> bytes(word.get(r, i) ^ Long.MIN_VALUE),
          (w, i, v) -> word.set(w, i, ByteBuffer.wrap(v).getLong() ^ Long.MIN_VALUE));
    }
    if (!(value instanceof Value.Bytes plain)) {
      return null;
    }
    if (type instanceof DecimalType) {
      return new Sortable(
          (r, i) -> widened(copy(plain, r, i)), (w, i, v) -> plain.set(w, i, narrowed(v)));
    }
    return new Sortable((r, i) -> copy(plain, r, i), plain.setter());
  }

  /** The same with NULL as a value, before all others: a byte says which of them it is. */
  Sortable orNull() {
    return new Sortable(
        (r, i) -> {
          if (r.isNullAt(i)) {
            return new byte[1];
          }
          byte[] value = get(r, i);
          return ByteBuffer.allocate(1 + value.length).put((byte) 1).put(value).array();
        },
        (w, i, v) -> {
          if (v[0] == 0) {
            w.setNull8Bytes(i);
          } else {
            set(w, i, Arrays.copyOfRange(v, 1, v.length));
          }
        });
  }

  /** Eight bytes that sort as the number does, unsigned. */
  static byte[] bytes(long number) {
    return ByteBuffer.allocate(Long.BYTES).putLong(number).array();
  }

  private static byte[] copy(Value.Bytes plain, SpecializedGetters row, int ordinal) {
    Value.Slice slice = new Value.Slice();
    plain.get(row, ordinal, slice);
    return slice.copy();
  }

  private static byte[] widened(byte[] number) {
    byte[] wide = new byte[WIDE];
    Arrays.fill(wide, 0, WIDE - number.length, (byte) (number[0] >> 7));
    System.arraycopy(number, 0, wide, WIDE - number.length, number.length);
    wide[0] ^= (byte) 0x80;
    return wide;
  }

  private static byte[] narrowed(byte[] wide) {
    byte[] number = wide.clone();
    number[0] ^= (byte) 0x80;
    return new BigInteger(number).toByteArray();
  }
}
