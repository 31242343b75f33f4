package io.tidemill.state;

import com.fasterxml.jackson.core.io.JsonStringEncoder;
import io.tidemill.Fault;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/** What calls make of the values that {@link ValueCounts} and {@link ValueSequence} keep. */
final class Readings {
  private Readings() {}

  // --- values with their counts ------------------------------------------------------------------

  /** MIN ({@code sign} -1) and MAX (1). */
  static ValueCounts.Reader extreme(Sortable form, int sign, int output) {
    return (values, out) -> {
      if (values.isEmpty()) {
        out.setNullAt(output);
      } else {
        form.set(out, output, (sign < 0 ? values.all().next() : values.last()).key);
      }
    };
  }

  /** COLLECT: Spark has no multisets, so it is a map from value to count. */
  static ValueCounts.Reader multiset(DataType element, Sortable form, boolean distinct, int output) {
    Elements keys = new Elements(element);
    Elements counts = new Elements(DataTypes.IntegerType);
    ByteWriter map = new ByteWriter(64);
    return (values, out) -> {
      long size = values.size();
      keys.begin(size);
      counts.begin(size);
      int at = 0;
      for (Bag.Cursor each = values.all(); each.hasNext(); at++) {
        Bag.Entry entry = each.next();
        form.set(keys.out, at, entry.key);
        counts.out.write(at, distinct ? 1 : (int) entry.count);
      }
      UnsafeArrayData keyArray = keys.end();
      map.reset();
      map.writeFixed64(keyArray.getSizeInBytes());
      append(map, keyArray);
      append(map, counts.end());
      out.write(output, map.buffer(), 0, map.size());
    };
  }

  private static void append(ByteWriter into, UnsafeArrayData array) {
    into.writeRaw((byte[]) array.getBaseObject(), Elements.from(array), array.getSizeInBytes());
  }

  /** PERCENTILE of DOUBLEs: between two values it is as far from them as its place is from theirs. */
  static ValueCounts.Reader percentile(double[] shares, DataType type, int output) {
    Elements found = new Elements(DataTypes.DoubleType);
    return (values, out) -> {
      if (values.isEmpty() || shares.length == 0) {
        out.setNullAt(output);
        return;
      }
      int size = Math.toIntExact(values.size());
      double[] sorted = new double[size];
      long[] upTo = new long[size];
      long total = 0;
      int at = 0;
      for (Bag.Cursor each = values.all(); each.hasNext(); at++) {
        Bag.Entry entry = each.next();
        sorted[at] = Value.unordered(ByteBuffer.wrap(entry.key).getLong() ^ Long.MIN_VALUE);
        total += entry.count;
        upTo[at] = total;
      }
      if (!(type instanceof ArrayType)) {
        out.write(output, percentile(sorted, upTo, shares[0]));
        return;
      }
      found.begin(shares.length);
      for (int i = 0; i < shares.length; i++) {
        found.out.write(i, percentile(sorted, upTo, shares[i]));
      }
      found.end(out, output);
    };
  }

  private static double percentile(double[] sorted, long[] upTo, double share) {
    double place = share * (upTo[upTo.length - 1] - 1) + 1;
    long lower = (long) Math.floor(place);
    long higher = (long) Math.ceil(place);
    int at = Arrays.binarySearch(upTo, lower);
    at = at < 0 ? -at - 1 : at;
    return upTo[at] >= higher
        ? sorted[at]
        : (higher - place) * sorted[at] + (place - lower) * sorted[at + 1];
  }

  /** The operand of JSON_OBJECTAGG: a key that is not null, and a value, as texts. */
  static ValueCounts.Operand member(int key, int value, boolean absentOnNull) {
    return row -> {
      if (row.isNullAt(value) && absentOnNull) {
        return null;
      }
      if (row.isNullAt(key)) {
        throw new Fault(
            Fault.JSON_KEY, "JSON_OBJECTAGG: a key is NULL", "leave such rows out: FILTER (WHERE key IS NOT NULL)");
      }
      byte[] name = text(row, key);
      byte[] member = row.isNullAt(value) ? NULL_MEMBER : text(row, value);
      return ByteBuffer.allocate(Integer.BYTES + name.length + member.length)
          .putInt(name.length)
          .put(name)
          .put(member)
          .array();
    };
  }

  private static final byte[] NULL_MEMBER = "null".getBytes(StandardCharsets.UTF_8);

  private static byte[] text(SpecializedGetters row, int ordinal) {
    return row.getUTF8String(ordinal).getBytes();
  }

  /** JSON_OBJECTAGG: members by name, as JSON_OBJECT has them. */
  static ValueCounts.Reader jsonObject(int output) {
    return (values, out) -> {
      Map<String, String> members = new TreeMap<>();
      for (Bag.Cursor each = values.all(); each.hasNext(); ) {
        Bag.Entry entry = each.next();
        int length = ByteBuffer.wrap(entry.key).getInt();
        int split = Integer.BYTES + length;
        String name = new String(entry.key, Integer.BYTES, length, StandardCharsets.UTF_8);
        String member = new String(entry.key, split, entry.key.length - split, StandardCharsets.UTF_8);
        if (entry.count > 1 || members.put(name, member) != null) {
          throw new Fault(
              Fault.JSON_KEY,
              "JSON_OBJECTAGG: key '" + name + "' is there twice",
              "keys must differ within a group: group by more, or aggregate the values of a key first");
        }
      }
      StringBuilder text = new StringBuilder("{");
      members.forEach(
          (name, member) -> {
            text.append(text.length() == 1 ? "\"" : ",\"");
            text.append(JsonStringEncoder.getInstance().quoteAsString(name)).append("\":").append(member);
          });
      out.write(output, UTF8String.fromString(text.append('}').toString()));
    };
  }

  // --- values in their order ---------------------------------------------------------------------

  /** FIRST_VALUE ({@code sign} -1) and LAST_VALUE (1). */
  static ValueSequence.Reader edge(Sortable form, int sign, int output) {
    return (values, out) -> {
      if (values.isEmpty()) {
        out.setNullAt(output);
      } else {
        form.set(out, output, (sign < 0 ? values.all().next() : values.last()).value);
      }
    };
  }

  /** SINGLE_VALUE: what a subquery gives that stands for one value. */
  static ValueSequence.Reader only(Sortable form, int output) {
    return (values, out) -> {
      if (values.size() > 1) {
        throw new Fault(
            Fault.SEVERAL_ROWS,
            "a subquery that stands for one value has more than one row",
            "let it give one row: aggregate (MAX, COUNT) or narrow its WHERE");
      }
      if (values.isEmpty() || ValueSequence.isNull(values.last())) {
        out.setNullAt(output);
      } else {
        form.set(out, output, values.last().value);
      }
    };
  }

  /** LISTAGG. */
  static ValueSequence.Reader joined(String delimiter, int output) {
    byte[] between = delimiter.getBytes(StandardCharsets.UTF_8);
    ByteWriter text = new ByteWriter(64);
    return (values, out) -> {
      if (values.isEmpty()) {
        out.setNullAt(output);
        return;
      }
      text.reset();
      boolean first = true;
      for (Bag.Cursor each = values.all(); each.hasNext(); first = false) {
        if (!first) {
          text.writeRaw(between, 0, between.length);
        }
        byte[] value = each.next().value;
        text.writeRaw(value, 0, value.length);
      }
      out.write(output, text.buffer(), 0, text.size());
    };
  }

  /** ARRAY_AGG: NULL, not an empty array, of no values. */
  static ValueSequence.Reader array(DataType element, Sortable form, int output) {
    Elements elements = new Elements(element);
    return (values, out) -> {
      if (values.isEmpty()) {
        out.setNullAt(output);
        return;
      }
      elements.begin(values.size());
      int at = 0;
      for (Bag.Cursor each = values.all(); each.hasNext(); at++) {
        Bag.Entry entry = each.next();
        if (ValueSequence.isNull(entry)) {
          elements.setNull(at);
        } else {
          form.set(elements.out, at, entry.value);
        }
      }
      elements.end(out, output);
    };
  }

  /** JSON_ARRAYAGG of texts that are JSON. */
  static ValueSequence.Reader jsonArray(int output) {
    ByteWriter text = new ByteWriter(64);
    return (values, out) -> {
      text.reset();
      text.writeByte('[');
      boolean first = true;
      for (Bag.Cursor each = values.all(); each.hasNext(); first = false) {
        Bag.Entry entry = each.next();
        if (!first) {
          text.writeByte(',');
        }
        byte[] value = ValueSequence.isNull(entry) ? NULL_MEMBER : entry.value;
        text.writeRaw(value, 0, value.length);
      }
      text.writeByte(']');
      out.write(output, text.buffer(), 0, text.size());
    };
  }
}
