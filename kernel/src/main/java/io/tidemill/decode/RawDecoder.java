package io.tidemill.decode;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;

/** A document that is the only column's text in UTF-8, its bytes, or a number of its type's length. */
final class RawDecoder extends Decoder {
  private final Integer at;
  private final Put put;
  private final ByteOrder order;

  /** What the last documents were in, so that not each is wrapped anew. */
  private ByteBuffer wrapped = ByteBuffer.allocate(0);

  RawDecoder(Spec spec) {
    Field field = spec.fields().get(0);
    this.at = field.at();
    this.order = spec.lowFirst() ? ByteOrder.LITTLE_ENDIAN : ByteOrder.BIG_ENDIAN;
    this.put = put(field.type());
  }

  @Override
  public int read(byte[] in, int from, int to, UnsafeRowWriter[] rows) {
    if (at != null) {
      put.put(in, from, to - from, rows[0]);
    }
    return 1;
  }

  private interface Put {
    void put(byte[] in, int from, int length, UnsafeRowWriter row);
  }

  private Put put(String type) {
    return switch (type) {
      case "STRING" ->
          (in, from, length, row) -> {
            Texts.checkUtf8(in, from, length);
            row.write(at, in, from, length);
          };
      case "BYTES" -> (in, from, length, row) -> row.write(at, in, from, length);
      case "BOOLEAN" ->
          (in, from, length, row) -> row.write(at, number(in, length, 1).get(from) != 0);
      case "TINYINT" -> (in, from, length, row) -> row.write(at, number(in, length, 1).get(from));
      case "SMALLINT" ->
          (in, from, length, row) -> row.write(at, number(in, length, 2).getShort(from));
      case "INT" -> (in, from, length, row) -> row.write(at, number(in, length, 4).getInt(from));
      case "BIGINT" -> (in, from, length, row) -> row.write(at, number(in, length, 8).getLong(from));
      case "FLOAT" -> (in, from, length, row) -> row.write(at, number(in, length, 4).getFloat(from));
      case "DOUBLE" ->
          (in, from, length, row) -> row.write(at, number(in, length, 8).getDouble(from));
      default -> throw new IllegalArgumentException("the kernel reads no " + type);
    };
  }

  private ByteBuffer number(byte[] in, int length, int wanted) {
    if (length != wanted) {
      throw Unsure.UNSURE;
    }
    if (wrapped.array() != in) {
      wrapped = ByteBuffer.wrap(in).order(order);
    }
    return wrapped;
  }
}
