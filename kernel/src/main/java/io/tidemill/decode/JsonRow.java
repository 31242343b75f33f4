package io.tidemill.decode;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.types.Decimal;

/**
 * Objects as rows: the fields by name, absent ones as NULL.
 *
 * <p>Documents of one topic have their members in the same order, so what was the third member of the
 * last document is looked for first where a third one is.
 */
final class JsonRow {
  private static final int LEARNED = 256;

  private final Value[] values;
  private final byte[][] names = new byte[LEARNED][];
  private final Value[] learned = new Value[LEARNED];
  private int round;

  JsonRow(List<Decoder.Field> fields, boolean iso) {
    this.values = fields.stream().map(field -> value(field, iso)).toArray(Value[]::new);
  }

  /** Takes the object here, which must be one. */
  void read(JsonText text, UnsafeRowWriter row) {
    readPart(text, row);
    for (Value value : values) {
      if (value.round != round) {
        row.setNullAt(value.at);
      }
    }
  }

  /** The same, and says nothing of absent fields: {@link #complete} does. */
  void readPart(JsonText text, UnsafeRowWriter row) {
    text.take('{');
    round++;
    if (text.next() == '}') {
      text.at++;
    } else {
      int member = 0;
      do {
        text.next();
        Value value = named(text, member++);
        text.take(':');
        byte b = text.next();
        if (value == null) {
          text.skip();
          continue;
        }
        if (value.round == round) {
          throw Unsure.UNSURE; // a name that is there twice
        }
        value.round = round;
        if (b == 'n') {
          text.nothing();
          row.setNullAt(value.at);
        } else {
          value.read(text, row);
        }
      } while (!text.ends('}'));
    }
  }

  /** Gives the fields that the last object did not have their values in another row. */
  void complete(UnsafeRowWriter row, UnsafeRow other) {
    for (Value value : values) {
      if (value.round == round) {
        continue;
      }
      if (other.isNullAt(value.at)) {
        row.setNullAt(value.at);
      } else {
        value.copy(other, row);
      }
    }
  }

  private Value named(JsonText text, int member) {
    if (member < LEARNED && names[member] != null && text.takes(names[member])) {
      return learned[member];
    }
    text.string();
    Value found = null;
    for (Value value : values) {
      byte[] name = value.name;
      if (Arrays.equals(text.text, text.from, text.from + text.length, name, 0, name.length)) {
        found = value;
      }
    }
    if (member < LEARNED && text.text == text.in) {
      names[member] = Arrays.copyOfRange(text.text, text.from, text.from + text.length);
      learned[member] = found;
    }
    return found;
  }

  /** A field: takes a value that is not null out of a text and puts it into its place in a row. */
  private abstract static class Value {
    final byte[] name;
    final int at;
    private final Decoder.Field field;
    int round;

    Value(Decoder.Field field) {
      this.name = field.name().getBytes(StandardCharsets.UTF_8);
      this.at = field.at();
      this.field = field;
    }

    abstract void read(JsonText text, UnsafeRowWriter row);

    void copy(UnsafeRow from, UnsafeRowWriter row) {
      if (field.isFixed()) {
        row.write(at, from.getLong(at));
      } else if (field.type().equals("DECIMAL")) {
        Decimal decimal = from.getDecimal(at, field.precision(), field.scale());
        row.write(at, decimal, field.precision(), field.scale());
      } else {
        row.write(at, from.getBinary(at));
      }
    }
  }

  /** One that needs to know nothing but its place. */
  private interface Put {
    void put(JsonText text, UnsafeRowWriter row, int at);
  }

  private static Value value(Decoder.Field field, boolean iso) {
    char separator = iso ? 'T' : ' ';
    boolean coarse = field.precision() <= 3;
    int precision = field.precision();
    int scale = field.scale();
    return switch (field.type()) {
      case "BOOLEAN" -> of(field, (text, row, at) -> row.write(at, text.bool()));
      case "TINYINT" ->
          of(field, (t, row, at) -> row.write(at, (byte) integer(t, Byte.MIN_VALUE, Byte.MAX_VALUE)));
      case "SMALLINT" ->
          of(field, (t, row, at) -> row.write(at, (short) integer(t, Short.MIN_VALUE, Short.MAX_VALUE)));
      case "INT" ->
          of(field, (t, row, at) -> row.write(at, (int) integer(t, Integer.MIN_VALUE, Integer.MAX_VALUE)));
      case "BIGINT" ->
          of(field, (t, row, at) -> row.write(at, integer(t, Long.MIN_VALUE, Long.MAX_VALUE)));
      case "FLOAT" ->
          of(
              field,
              (text, row, at) -> {
                text.number();
                row.write(at, text.number.single());
              });
      case "DOUBLE" ->
          of(
              field,
              (text, row, at) -> {
                text.number();
                row.write(at, text.number.approximate());
              });
      case "DECIMAL" ->
          of(
              field,
              (text, row, at) -> {
                text.number();
                long unscaled = text.number.unscaled(precision, scale);
                row.write(at, Decimal.apply(unscaled, precision, scale), precision, scale);
              });
      case "STRING" ->
          of(
              field,
              (text, row, at) -> {
                text.string();
                row.write(at, text.text, text.from, text.length);
              });
      case "DATE" ->
          of(
              field,
              (text, row, at) -> {
                text.string();
                row.write(at, Texts.date(text.text, text.from, text.length));
              });
      case "TIMESTAMP", "TIMESTAMP_LTZ" -> {
        boolean zoned = field.type().equals("TIMESTAMP_LTZ");
        yield of(
            field,
            (t, row, at) -> {
              t.string();
              row.write(at, Texts.timestamp(t.text, t.from, t.length, separator, zoned, coarse));
            });
      }
      case "ROW" -> new Nested(field, iso);
      default -> throw new IllegalArgumentException("the kernel reads no " + field.type());
    };
  }

  private static Value of(Decoder.Field field, Put put) {
    return new Value(field) {
      @Override
      void read(JsonText text, UnsafeRowWriter row) {
        put.put(text, row, at);
      }
    };
  }

  private static long integer(JsonText text, long least, long most) {
    text.number();
    return text.number.integer(least, most);
  }

  private static final class Nested extends Value {
    private final JsonRow fields;
    private UnsafeRowWriter parent;
    private UnsafeRowWriter child;

    Nested(Decoder.Field field, boolean iso) {
      super(field);
      this.fields = new JsonRow(field.fields(), iso);
    }

    @Override
    void read(JsonText text, UnsafeRowWriter row) {
      if (parent != row) {
        parent = row;
        child = new UnsafeRowWriter(row, fields.values.length);
      }
      int start = row.cursor();
      child.resetRowWriter();
      fields.read(text, child);
      row.setOffsetAndSizeFromPreviousCursor(at, start);
    }
  }
}
