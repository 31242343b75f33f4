package io.tidemill.encode;

import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;

/** The only column's text in UTF-8, its bytes, or its number; where it is NULL there is no document. */
final class RawEncoder extends Encoder {
  /**
   * @param lowFirst whether numbers have their lowest byte first
   * @param end what comes behind each document
   */
  record Form(boolean lowFirst, String end) implements Serializable {}

  private interface Writer {
    byte[] write(InternalRow row);
  }

  private final Form form;
  private final DataType type;

  private transient Writer writer;
  private transient byte[] end;

  RawEncoder(List<DocumentSpec.Field> fields, Form form, StructType row) {
    super(fields);
    this.form = form;
    this.type = row.apply(0).dataType();
    open(); // so that what cannot be written is refused here
  }

  private void open() {
    writer = writer();
    end = form.end().getBytes(StandardCharsets.UTF_8);
  }

  @Override
  boolean mayBeNull() {
    return true;
  }

  @Override
  byte[] write(InternalRow row) {
    if (writer == null) {
      open();
    }
    if (row.isNullAt(0)) {
      return null;
    }
    byte[] document = writer.write(row);
    if (end.length == 0) {
      return document;
    }
    byte[] whole = Arrays.copyOf(document, document.length + end.length);
    System.arraycopy(end, 0, whole, document.length, end.length);
    return whole;
  }

  private Writer writer() {
    if (type instanceof StringType) {
      return row -> row.getUTF8String(0).getBytes();
    } else if (type instanceof BinaryType) {
      return row -> row.getBinary(0);
    } else if (type instanceof BooleanType) {
      return row -> new byte[] {(byte) (row.getBoolean(0) ? 1 : 0)};
    } else if (type instanceof ByteType) {
      return row -> new byte[] {row.getByte(0)};
    } else if (type instanceof ShortType) {
      return row -> number(2).putShort(row.getShort(0)).array();
    } else if (type instanceof IntegerType) {
      return row -> number(4).putInt(row.getInt(0)).array();
    } else if (type instanceof LongType) {
      return row -> number(8).putLong(row.getLong(0)).array();
    } else if (type instanceof FloatType) {
      return row -> number(4).putFloat(row.getFloat(0)).array();
    } else if (type instanceof DoubleType) {
      return row -> number(8).putDouble(row.getDouble(0)).array();
    }
    throw new IllegalArgumentException(type.simpleString() + " is not written here");
  }

  private ByteBuffer number(int bytes) {
    return ByteBuffer.allocate(bytes).order(form.lowFirst() ? ByteOrder.LITTLE_ENDIAN : ByteOrder.BIG_ENDIAN);
  }
}
