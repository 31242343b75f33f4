package io.tidemill.decode;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.types.Decimal;

/** A line of plain texts, as many as the table has columns: nothing quoted, escaped or trimmed. */
final class CsvDecoder extends Decoder {

  /**
   * @param delimiter one ASCII character
   * @param odd ASCII characters that make a line one for Python
   * @param nullLiteral the text that is NULL; null if there is none
   * @param emptyIsNull whether an empty text is NULL
   */
  public record Form(char delimiter, String odd, String nullLiteral, boolean emptyIsNull)
      implements Serializable {}

  private static final byte[] TRUE = {'t', 'r', 'u', 'e'};
  private static final byte[] FALSE = {'f', 'a', 'l', 's', 'e'};

  /** Of each byte what it is for the line. */
  private final byte[] signs = new byte[256];

  private static final byte DELIMITER = 1;
  private static final byte HIGH = 2;
  private static final byte ODD = 3;

  private final List<Field> fields;
  private final Put[] puts;
  private final byte[] nullLiteral;
  private final boolean emptyIsNull;
  private final Number number = new Number();

  CsvDecoder(Spec spec) {
    Form form = spec.csv();
    this.fields = spec.fields();
    this.puts = fields.stream().map(this::put).toArray(Put[]::new);
    this.nullLiteral =
        form.nullLiteral() == null ? null : form.nullLiteral().getBytes(StandardCharsets.UTF_8);
    this.emptyIsNull = form.emptyIsNull();
    Arrays.fill(signs, 128, 256, HIGH);
    for (char sign : ("\r\n\0" + form.odd()).toCharArray()) {
      signs[sign] = ODD;
    }
    signs[form.delimiter()] = DELIMITER;
  }

  @Override
  public int read(byte[] in, int from, int to, UnsafeRowWriter[] rows) {
    if (from == to) {
      throw Unsure.UNSURE;
    }
    boolean high = false;
    int start = from;
    int field = 0;
    for (int i = from; i <= to; i++) {
      byte sign = i == to ? DELIMITER : signs[in[i] & 0xff];
      if (sign == 0) {
        continue;
      }
      if (sign == ODD) {
        throw Unsure.UNSURE;
      }
      if (sign == HIGH) {
        high = true;
        continue;
      }
      if (field == puts.length) {
        throw Unsure.UNSURE;
      }
      put(field++, in, start, i - start, rows[0]);
      start = i + 1;
    }
    if (field < puts.length) {
      throw Unsure.UNSURE;
    }
    if (high) {
      // Also a mark of byte order, which is UTF-8 by itself, is not a text.
      if (in[from] == (byte) 0xef) {
        throw Unsure.UNSURE;
      }
      Texts.checkUtf8(in, from, to - from);
    }
    return 1;
  }

  private void put(int field, byte[] in, int from, int length, UnsafeRowWriter row) {
    Put put = puts[field];
    if (put == null) {
      return;
    }
    int at = fields.get(field).at();
    if (length == 0 && emptyIsNull || isNull(in, from, length)) {
      row.setNullAt(at);
    } else {
      put.put(in, from, length, row, at);
    }
  }

  private boolean isNull(byte[] in, int from, int length) {
    return nullLiteral != null
        && length == nullLiteral.length
        && Arrays.equals(in, from, from + length, nullLiteral, 0, length);
  }

  private interface Put {
    void put(byte[] in, int from, int length, UnsafeRowWriter row, int at);
  }

  private Put put(Field field) {
    if (field.at() == null) {
      return null;
    }
    int precision = field.precision();
    int scale = field.scale();
    return switch (field.type()) {
      case "BOOLEAN" ->
          (in, from, length, row, at) -> {
            boolean yes = Arrays.equals(in, from, from + length, TRUE, 0, TRUE.length);
            if (!yes && !Arrays.equals(in, from, from + length, FALSE, 0, FALSE.length)) {
              throw Unsure.UNSURE;
            }
            row.write(at, yes);
          };
      case "TINYINT" ->
          (in, from, length, row, at) ->
              row.write(at, (byte) read(in, from, length).integer(Byte.MIN_VALUE, Byte.MAX_VALUE));
      case "SMALLINT" ->
          (in, from, length, row, at) ->
              row.write(at, (short) read(in, from, length).integer(Short.MIN_VALUE, Short.MAX_VALUE));
      case "INT" ->
          (in, from, length, row, at) ->
              row.write(at, (int) read(in, from, length).integer(Integer.MIN_VALUE, Integer.MAX_VALUE));
      case "BIGINT" ->
          (in, from, length, row, at) ->
              row.write(at, read(in, from, length).integer(Long.MIN_VALUE, Long.MAX_VALUE));
      case "FLOAT" ->
          (in, from, length, row, at) -> row.write(at, read(in, from, length).single());
      case "DOUBLE" ->
          (in, from, length, row, at) -> row.write(at, read(in, from, length).approximate());
      case "DECIMAL" ->
          (in, from, length, row, at) -> {
            long unscaled = read(in, from, length).unscaled(precision, scale);
            row.write(at, Decimal.apply(unscaled, precision, scale), precision, scale);
          };
      case "STRING" -> (in, from, length, row, at) -> row.write(at, in, from, length);
      case "DATE" ->
          (in, from, length, row, at) -> row.write(at, Texts.date(in, from, length));
      case "TIMESTAMP", "TIMESTAMP_LTZ" -> {
        boolean zoned = field.type().equals("TIMESTAMP_LTZ");
        boolean coarse = precision <= 3;
        yield (in, from, length, row, at) ->
            row.write(at, Texts.timestamp(in, from, length, ' ', zoned, coarse));
      }
      default -> throw new IllegalArgumentException("the kernel reads no " + field.type());
    };
  }

  private Number read(byte[] in, int from, int length) {
    if (length == 0 || number.read(in, from, from + length) != from + length) {
      throw Unsure.UNSURE;
    }
    return number;
  }
}
