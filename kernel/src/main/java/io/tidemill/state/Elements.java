package io.tidemill.state;

import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeArrayWriter;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;

/** Makes arrays of one type, element by element, as Spark lays them out. */
final class Elements {
  private final UnsafeRowWriter row = new UnsafeRowWriter(1, 64);
  private final int width;
  final UnsafeArrayWriter out;
  private int start;

  Elements(DataType type) {
    // What is no number lies behind its place, which holds where and how long it is.
    width = Value.of(type) instanceof Value.Word ? Math.min(8, type.defaultSize()) : 8;
    out = new UnsafeArrayWriter(row, width);
  }

  void begin(long size) {
    row.reset();
    start = row.cursor();
    out.initialize(Math.toIntExact(size));
  }

  void setNull(int ordinal) {
    switch (width) {
      case 1 -> out.setNull1Bytes(ordinal);
      case 2 -> out.setNull2Bytes(ordinal);
      case 4 -> out.setNull4Bytes(ordinal);
      default -> out.setNull8Bytes(ordinal);
    }
  }

  /** The array; it is void when the next one begins. */
  UnsafeArrayData end() {
    row.setOffsetAndSizeFromPreviousCursor(0, start);
    return row.getRow().getArray(0);
  }

  void end(UnsafeRowWriter into, int ordinal) {
    UnsafeArrayData array = end();
    into.write(ordinal, (byte[]) array.getBaseObject(), from(array), array.getSizeInBytes());
  }

  static int from(UnsafeArrayData array) {
    return (int) (array.getBaseOffset() - Platform.BYTE_ARRAY_OFFSET);
  }
}
