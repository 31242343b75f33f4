package io.tidemill.state;

import java.io.Serializable;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.StructType;

/**
 * Some columns of a row as bytes whose unsigned order is the order that a query asks for. No key is the beginning of
 * another one, so that something may follow it. Columns of types without an order are told apart, in no particular one.
 *
 * <p>State holds these bytes: their form may never change.
 */
final class SortKey {
  /** One column of an order. */
  record Column(String column, boolean descending, boolean nullsLast) implements Serializable {}

  private static final int NULL_FIRST = 0;
  private static final int PRESENT = 1;
  private static final int NULL_LAST = 2;
  // A zero inside of a value is followed by a mark, so that the two zeros at its end come before all that is longer.
  private static final int END = 0;
  private static final int ESCAPED_ZERO = 0xFF;
  private static final int WIDE_DECIMAL_BYTES = 16;
  private static final long NEGATIVE_ZERO = Value.ordered(-0.0);

  private record Part(int ordinal, Value value, boolean real, boolean wideDecimal, int flip, int ofNull) {}

  private final Part[] parts;
  private final ByteWriter bytes = new ByteWriter(64);
  private final Value.Slice slice = new Value.Slice();

  SortKey(StructType schema, List<Column> order) {
    parts = order.stream().map(column -> part(schema, column)).toArray(Part[]::new);
  }

  /** What tells rows apart by some of their columns. */
  static SortKey identity(StructType schema, List<String> columns) {
    return new SortKey(schema, columns.stream().map(name -> new Column(name, false, false)).toList());
  }

  private static Part part(StructType schema, Column column) {
    int ordinal = schema.fieldIndex(column.column());
    DataType type = schema.apply(ordinal).dataType();
    Value value = Value.of(type);
    return new Part(
        ordinal,
        value,
        type instanceof DoubleType || type instanceof FloatType,
        type instanceof DecimalType && value instanceof Value.Bytes,
        column.descending() ? 0xFF : 0,
        column.nullsLast() ? NULL_LAST : NULL_FIRST);
  }

  byte[] of(SpecializedGetters row) {
    write(row);
    return bytes.toBytes();
  }

  /** The same, followed by a number that puts equal keys in order. */
  byte[] of(SpecializedGetters row, long number) {
    write(row);
    writeWord(number, 0);
    return bytes.toBytes();
  }

  private void write(SpecializedGetters row) {
    bytes.reset();
    for (Part part : parts) {
      if (row.isNullAt(part.ordinal)) {
        bytes.writeByte(part.ofNull);
        continue;
      }
      bytes.writeByte(PRESENT);
      if (part.value instanceof Value.Word word) {
        long value = word.get(row, part.ordinal);
        // SQL knows one zero.
        value = part.real && value == NEGATIVE_ZERO ? 0 : value;
        writeWord(value ^ Long.MIN_VALUE, part.flip);
      } else {
        ((Value.Bytes) part.value).get(row, part.ordinal, slice);
        if (part.wideDecimal) {
          writeDecimal(part.flip);
        } else {
          writeEscaped(part.flip);
        }
      }
    }
  }

  private void writeWord(long word, int flip) {
    for (int shift = 56; shift >= 0; shift -= 8) {
      bytes.writeByte((int) (word >>> shift) ^ flip);
    }
  }

  /** Two's complement, its big end first, stretched to one length and with the sign turned. */
  private void writeDecimal(int flip) {
    int sign = slice.bytes[slice.from] < 0 ? 0xFF : 0;
    for (int i = slice.length - WIDE_DECIMAL_BYTES; i < slice.length; i++) {
      int value = i < 0 ? sign : slice.bytes[slice.from + i];
      int turned = i == slice.length - WIDE_DECIMAL_BYTES ? 0x80 : 0;
      bytes.writeByte(value ^ turned ^ flip);
    }
  }

  private void writeEscaped(int flip) {
    for (int i = slice.from; i < slice.from + slice.length; i++) {
      bytes.writeByte(slice.bytes[i] ^ flip);
      if (slice.bytes[i] == 0) {
        bytes.writeByte(ESCAPED_ZERO ^ flip);
      }
    }
    bytes.writeByte(END ^ flip);
    bytes.writeByte(END ^ flip);
  }

  /** Whether bytes are a key, or a key and what follows it. */
  static boolean begins(byte[] key, byte[] bytes) {
    return bytes.length >= key.length && Arrays.equals(key, 0, key.length, bytes, 0, key.length);
  }

  /** Refuses columns that have no order; {@code operator} is who asks for it. */
  static void check(StructType schema, List<Column> order, String operator) {
    for (Column column : order) {
      DataType type = schema.apply(column.column()).dataType();
      Value value = Value.of(type);
      if (value == null || value instanceof Value.Bytes bytes && bytes.order() == null) {
        throw new IllegalArgumentException(
            operator + ": no order for column " + column.column() + " of type " + type.sql());
      }
    }
  }
}
