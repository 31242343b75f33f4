package io.tidemill.decode;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeArrayWriter;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeWriter;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

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
  /** Of the last object: the last field with something behind the places, and whether all such came in their order. */
  private int furthest;

  private boolean isInOrder;

  JsonRow(List<Decoder.Field> fields, boolean iso) {
    this.values = fields.stream().map(field -> value(field, iso)).toArray(Value[]::new);
  }

  /** Takes the object here, which must be one. */
  void read(JsonText text, UnsafeRowWriter row) {
    readPart(text, row);
    for (Value value : values) {
      if (value.round != round) {
        value.clear(row);
        if (value.isWide) {
          passed(value);
        }
      }
    }
  }

  private void passed(Value value) {
    if (!value.isFixed) {
      isInOrder &= value.at > furthest;
      furthest = value.at;
    }
  }

  /** The same, and says nothing of absent fields: {@link #complete} does. */
  void readPart(JsonText text, UnsafeRowWriter row) {
    text.take('{');
    round++;
    furthest = -1;
    isInOrder = true;
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
        passed(value);
        if (b == 'n') {
          text.nothing();
          value.clear(row);
        } else {
          value.read(text, row, value.at);
        }
      } while (!text.ends('}'));
    }
  }

  /** Gives the fields that the last object did not have their values in another row. */
  void complete(UnsafeRowWriter row, UnsafeRow other) {
    for (Value value : values) {
      if (value.round != round) {
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

  /** A field, or the element of an array: takes a value that is not null out of a text and puts it into a place. */
  private abstract static class Value {
    final byte[] name;
    final int at;
    /** Whether its place holds the value itself, and nothing comes behind the places. */
    final boolean isFixed;
    /** A DECIMAL too long for its place; Spark has room behind the places even for one that is NULL. */
    final boolean isWide;
    private final Decoder.Field field;
    int round;

    Value(Decoder.Field field) {
      this.name = field.name().getBytes(StandardCharsets.UTF_8);
      this.at = field.at();
      this.isFixed = field.isFixed();
      this.isWide = !isFixed && field.type().equals("DECIMAL");
      this.field = field;
    }

    abstract void read(JsonText text, UnsafeWriter into, int place);

    void clear(UnsafeRowWriter row) {
      if (isWide) {
        row.write(at, (Decimal) null, field.precision(), field.scale());
      } else {
        row.setNullAt(at);
      }
    }

    void copy(UnsafeRow from, UnsafeRowWriter row) {
      if (from.isNullAt(at)) {
        clear(row);
      } else if (isFixed) {
        row.write(at, from.getLong(at));
      } else if (isWide) {
        Decimal decimal = from.getDecimal(at, field.precision(), field.scale());
        row.write(at, decimal, field.precision(), field.scale());
      } else {
        row.write(at, from.getBinary(at));
      }
    }
  }

  /** One that needs to know nothing but its place. */
  private interface Put {
    void put(JsonText text, UnsafeWriter into, int at);
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
      case "ARRAY" -> new Elements(field, iso);
      case "MAP" -> new Entries(field, iso);
      default -> throw new IllegalArgumentException("the kernel reads no " + field.type());
    };
  }

  private static Value of(Decoder.Field field, Put put) {
    return new Value(field) {
      @Override
      void read(JsonText text, UnsafeWriter into, int place) {
        put.put(text, into, place);
      }
    };
  }

  private static long integer(JsonText text, long least, long most) {
    text.number();
    return text.number.integer(least, most);
  }

  /** A row inside. Equal rows have equal bytes, by which Spark compares them: their fields are in their order. */
  private static final class Nested extends Value {
    private final JsonRow fields;
    private UnsafeWriter parent;
    private UnsafeRowWriter child;

    Nested(Decoder.Field field, boolean iso) {
      super(field);
      this.fields = new JsonRow(field.fields(), iso);
    }

    @Override
    void read(JsonText text, UnsafeWriter into, int place) {
      if (parent != into) {
        parent = into;
        child = new UnsafeRowWriter(into, fields.values.length);
      }
      int start = into.cursor();
      child.resetRowWriter();
      fields.read(text, child);
      if (!fields.isInOrder) {
        order(start);
      }
      into.setOffsetAndSizeFromPreviousCursor(place, start);
    }

    private void order(int start) {
      int end = child.cursor();
      byte[] found = Arrays.copyOfRange(
          child.getBuffer(), start - Platform.BYTE_ARRAY_OFFSET, end - Platform.BYTE_ARRAY_OFFSET);
      UnsafeRow mixed = new UnsafeRow(fields.values.length);
      mixed.pointTo(found, found.length);
      child.increaseCursor(start - end);
      child.resetRowWriter();
      for (Value value : fields.values) {
        value.copy(mixed, child);
      }
    }
  }

  private static final class Elements extends Value {
    private final Places places;

    Elements(Decoder.Field field, boolean iso) {
      super(field);
      this.places = new Places(field.fields().get(0), iso);
    }

    @Override
    void read(JsonText text, UnsafeWriter into, int place) {
      int start = into.cursor();
      int count = text.elements();
      places.open(into, count);
      text.take('[');
      for (int i = 0; i < count; i++) {
        places.read(text, i);
        text.ends(']');
      }
      if (count == 0) {
        text.take(']');
      }
      into.setOffsetAndSizeFromPreviousCursor(place, start);
    }
  }

  /** Spark has all keys of a map before its values, and the size of the keys before both. */
  private static final class Entries extends Value {
    /** Up to so many keys are compared with each other; more are put into a set. */
    private static final int FEW = 16;

    private final Places keys;
    private final Places values;
    /** Of each entry in the document: where its key is, and where its value. */
    private int[] keyAt = new int[FEW];

    private int[] valueAt = new int[FEW];

    Entries(Decoder.Field field, boolean iso) {
      super(field);
      this.keys = new Places(field.fields().get(0), iso);
      this.values = new Places(field.fields().get(1), iso);
    }

    @Override
    void read(JsonText text, UnsafeWriter into, int place) {
      int start = into.cursor();
      int count = find(text);
      int end = text.at;
      into.grow(Long.BYTES);
      into.increaseCursor(Long.BYTES);
      int keysFrom = into.cursor();
      fill(keys, text, into, keyAt, count);
      long size = into.cursor() - keysFrom;
      Platform.putLong(into.getBuffer(), start, size);
      checkKeys(into.getBuffer(), keysFrom, (int) size, count);
      fill(values, text, into, valueAt, count);
      text.at = end;
      into.setOffsetAndSizeFromPreviousCursor(place, start);
    }

    /** Takes the object and notes where its entries are; says how many. */
    private int find(JsonText text) {
      int count = 0;
      text.take('{');
      if (text.next() == '}') {
        text.at++;
        return 0;
      }
      do {
        if (count == keyAt.length) {
          keyAt = Arrays.copyOf(keyAt, 2 * count);
          valueAt = Arrays.copyOf(valueAt, 2 * count);
        }
        text.next();
        keyAt[count] = text.at;
        text.string();
        text.take(':');
        text.next();
        valueAt[count++] = text.at;
        text.skip();
      } while (!text.ends('}'));
      return count;
    }

    private static void fill(Places places, JsonText text, UnsafeWriter into, int[] at, int count) {
      places.open(into, count);
      for (int i = 0; i < count; i++) {
        text.at = at[i];
        places.read(text, i);
      }
    }

    /** Of equal keys one counts; which, Python knows. */
    private static void checkKeys(byte[] buffer, long from, int size, int count) {
      UnsafeArrayData found = new UnsafeArrayData();
      found.pointTo(buffer, from, size);
      Set<UTF8String> seen = count > FEW ? new HashSet<>(2 * count) : null;
      for (int i = 0; i < count; i++) {
        UTF8String key = found.getUTF8String(i);
        boolean isNew = seen == null || seen.add(key);
        for (int j = 0; seen == null && isNew && j < i; j++) {
          isNew = !key.equals(found.getUTF8String(j));
        }
        if (!isNew) {
          throw Unsure.UNSURE;
        }
      }
    }
  }

  /** The elements of an array of Spark's. */
  private static final class Places {
    private final Value element;
    private final int size;
    private final boolean nullable;
    private UnsafeWriter parent;
    private UnsafeArrayWriter array;

    Places(Decoder.Field of, boolean iso) {
      this.element = value(of, iso);
      this.size = of.size();
      this.nullable = of.nullable();
    }

    /** Begins an array behind what has been written. */
    void open(UnsafeWriter into, int count) {
      if (parent != into) {
        parent = into;
        array = new UnsafeArrayWriter(into, size);
      }
      array.initialize(count);
    }

    /** Takes the value here, which may be null. */
    void read(JsonText text, int i) {
      if (text.next() == 'n') {
        text.nothing();
        if (!nullable) {
          throw Unsure.UNSURE;
        }
        clear(i);
      } else {
        element.read(text, array, i);
      }
    }

    private void clear(int i) {
      switch (size) {
        case 1 -> array.setNull1Bytes(i);
        case 2 -> array.setNull2Bytes(i);
        case 4 -> array.setNull4Bytes(i);
        default -> array.setNull8Bytes(i);
      }
    }
  }
}
