package io.tidemill.state;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StructType;

/**
 * The accumulators of an operator's calls: the table from function to accumulator, and the slots they share out.
 * Results follow Flink; where Flink's own depends on how it happens to add (a DECIMAL sum that overflowed and came
 * back), the exact one is given.
 */
final class Accumulators {
  final List<Accumulator> all = new ArrayList<>();
  /** The distinct sets among {@link #all}, in slot order: those that may need a spill. */
  final List<DistinctValues> distinct = new ArrayList<>();

  final boolean ordered;
  private final int rows;
  private int words;
  private int objects;

  /** An aggregate call whose columns have been found: ordinals in the argument row, types from the input. */
  record Bound(AggregateSpec.Call call, int argument, DataType argumentType, int filter, int output, DataType type) {
    IllegalArgumentException refuse(String reason) {
      return new IllegalArgumentException(call + ": " + reason);
    }

    boolean readsValues() {
      return !call.function().equals("COUNT");
    }

    /** The same call fed by a distinct set: its rows hold nothing but the argument, which is never null. */
    Bound overDistinct() {
      return new Bound(call, readsValues() ? 0 : -1, argumentType, -1, output, type);
    }
  }

  @FunctionalInterface
  private interface Factory {
    Accumulator create(Accumulators slots, Bound call);
  }

  private static final Map<String, Factory> FUNCTIONS =
      Map.of(
          "COUNT", Accumulators::count,
          "SUM", (slots, call) -> slots.total(call, false),
          "AVG", (slots, call) -> slots.total(call, true),
          "MIN", (slots, call) -> slots.extreme(call, -1),
          "MAX", (slots, call) -> slots.extreme(call, 1));

  Accumulators(AggregateSpec spec, StructType arguments) {
    record Operand(List<String> arguments, String filter) {}
    Map<Operand, DistinctValues> sets = new LinkedHashMap<>();
    rows = spec.retracting() ? words++ : -1;
    if (spec.retracting()) {
      all.add(new Count(rows, -1, -1));
    }
    for (int output = 0; output < spec.aggregates().size(); output++) {
      AggregateSpec.Call call = spec.aggregates().get(output);
      Factory factory = FUNCTIONS.get(call.function());
      if (factory == null) {
        throw new IllegalArgumentException(
            call + ": unknown function; known are " + FUNCTIONS.keySet().stream().sorted().toList());
      }
      Bound bound = bind(call, output, arguments);
      // An extreme is the same with and without repeats.
      boolean extreme = call.function().equals("MIN") || call.function().equals("MAX");
      if (call.distinct() && !extreme) {
        if (call.arguments().isEmpty()) {
          throw bound.refuse("DISTINCT needs an argument");
        }
        sets.computeIfAbsent(new Operand(call.arguments(), call.filter()), o -> distinct(bound))
            .feed(factory.create(this, bound.overDistinct()), bound.readsValues());
      } else {
        all.add(filtered(factory.create(this, bound), bound.filter()));
      }
    }
    ordered = all.stream().anyMatch(Accumulator::ordered);
  }

  Group newGroups(int capacity) {
    return new Group(words, objects, capacity);
  }

  /** How many rows a group has, over input that retracts. */
  long rows(Group group) {
    return group.word(rows);
  }

  private static Bound bind(AggregateSpec.Call call, int output, StructType arguments) {
    int argument = call.arguments().isEmpty() ? -1 : arguments.fieldIndex(call.arguments().get(0));
    int filter = call.filter() == null ? -1 : arguments.fieldIndex(call.filter());
    DataType argumentType = argument < 0 ? null : arguments.apply(argument).dataType();
    return new Bound(call, argument, argumentType, filter, output, DataType.fromDDL(call.type()));
  }

  private DistinctValues distinct(Bound call) {
    Value value = Value.of(call.argumentType());
    if (value == null) {
      throw call.refuse("DISTINCT over " + call.argumentType().sql() + " is not supported");
    }
    DistinctValues set = new DistinctValues(distinct.size(), value, call.argument(), words++, words++, objects++);
    distinct.add(set);
    all.add(filtered(set, call.filter()));
    return set;
  }

  private static Accumulator filtered(Accumulator accumulator, int filter) {
    return filter < 0 ? accumulator : new Filtered(accumulator, filter);
  }

  private static boolean integral(DataType type) {
    return type instanceof ByteType
        || type instanceof ShortType
        || type instanceof IntegerType
        || type instanceof LongType;
  }

  private static boolean approximate(DataType type) {
    return type instanceof FloatType || type instanceof DoubleType;
  }

  private Accumulator count(Bound call) {
    if (!(call.type() instanceof LongType)) {
      throw call.refuse("the result is BIGINT, not " + call.type().sql());
    }
    return new Count(words++, call.argument(), call.output());
  }

  private Accumulator total(Bound call, boolean average) {
    DataType from = call.argumentType();
    DataType to = call.type();
    if (from == null) {
      throw call.refuse("an argument is needed");
    }
    if (integral(from) && integral(to)) {
      Value.Word argument = (Value.Word) Value.of(from);
      Value.Word result = (Value.Word) Value.of(to);
      return new IntegerTotal(words++, words++, call.argument(), argument, call.output(), result, average);
    }
    if (from instanceof DecimalType decimal && to instanceof DecimalType result) {
      return new DecimalTotal(words++, words++, objects++, call.argument(), decimal, call.output(), result, average);
    }
    if (approximate(from) && approximate(to)) {
      return new FloatingTotal(
          words++,
          words++,
          objects++,
          call.argument(),
          from instanceof FloatType,
          call.output(),
          to instanceof FloatType,
          average);
    }
    throw call.refuse("no " + to.sql() + " can be made of " + from.sql());
  }

  private Accumulator extreme(Bound call, int sign) {
    DataType type = call.argumentType();
    if (type == null) {
      throw call.refuse("an argument is needed");
    }
    if (!DataType.equalsStructurally(type, call.type(), true)) {
      throw call.refuse("the result has the argument's type " + type.sql() + ", not " + call.type().sql());
    }
    Value value = Value.of(type);
    if (value instanceof Value.Word word) {
      return new WordExtreme(words++, words++, call.argument(), call.output(), word, sign);
    }
    if (value instanceof Value.Bytes bytes && bytes.order() != null) {
      return new BytesExtreme(objects++, call.argument(), call.output(), bytes, sign);
    }
    throw call.refuse(type.sql() + " has no order");
  }

  /** {@code FILTER (WHERE …)}: false and null keep the row away from this call, not from the group. */
  private record Filtered(Accumulator inner, int filter) implements Accumulator {
    private boolean passes(SpecializedGetters row) {
      return !row.isNullAt(filter) && row.getBoolean(filter);
    }

    @Override
    public void add(Group group, SpecializedGetters row, int sign) {
      if (passes(row)) {
        inner.add(group, row, sign);
      }
    }

    @Override
    public int collect(Group group, SpecializedGetters row, int sign) {
      return passes(row) ? inner.collect(group, row, sign) : 0;
    }

    @Override
    public void writeDelta(Group group, ByteWriter out) {
      inner.writeDelta(group, out);
    }

    @Override
    public void merge(Group group, ByteReader delta) {
      inner.merge(group, delta);
    }

    @Override
    public void write(Group group, ByteWriter out) {
      inner.write(group, out);
    }

    @Override
    public void read(Group group, ByteReader in) {
      inner.read(group, in);
    }

    @Override
    public void result(Group group, UnsafeRowWriter out) {
      inner.result(group, out);
    }

    @Override
    public boolean ordered() {
      return inner.ordered();
    }
  }

  /** A count of rows, or of those whose argument is not null; {@code output} is -1 for one that nobody asked for. */
  private record Count(int count, int argument, int output) implements Accumulator {
    @Override
    public void add(Group group, SpecializedGetters row, int sign) {
      if (argument < 0 || !row.isNullAt(argument)) {
        group.addToWord(count, sign);
      }
    }

    @Override
    public void merge(Group group, ByteReader delta) {
      group.addToWord(count, delta.readZigzag());
    }

    @Override
    public void write(Group group, ByteWriter out) {
      out.writeZigzag(group.word(count));
    }

    @Override
    public void read(Group group, ByteReader in) {
      group.setWord(count, in.readZigzag());
    }

    @Override
    public void result(Group group, UnsafeRowWriter out) {
      if (output >= 0) {
        out.write(output, group.word(count));
      }
    }
  }

  /** SUM and AVG of integers. 64 bits wrap, and cutting them to the result's width is wrapping in that width. */
  private record IntegerTotal(
      int count, int sum, int argument, Value.Word value, int output, Value.Word type, boolean average)
      implements Accumulator {
    @Override
    public void add(Group group, SpecializedGetters row, int sign) {
      if (!row.isNullAt(argument)) {
        group.addToWord(count, sign);
        group.addToWord(sum, sign * value.get(row, argument));
      }
    }

    @Override
    public void merge(Group group, ByteReader delta) {
      group.addToWord(count, delta.readZigzag());
      group.addToWord(sum, delta.readZigzag());
    }

    @Override
    public void write(Group group, ByteWriter out) {
      out.writeZigzag(group.word(count));
      out.writeZigzag(group.word(sum));
    }

    @Override
    public void read(Group group, ByteReader in) {
      group.setWord(count, in.readZigzag());
      group.setWord(sum, in.readZigzag());
    }

    @Override
    public void result(Group group, UnsafeRowWriter out) {
      long n = group.word(count);
      if (n == 0) {
        out.setNullAt(output);
      } else {
        type.set(out, output, average ? group.word(sum) / n : group.word(sum));
      }
    }
  }

  /**
   * SUM and AVG of decimals, exact: the sum of unscaled values is a word plus, once that overflows, a big integer.
   * A result beyond the type's precision is NULL, and comes back when the sum does.
   */
  private record DecimalTotal(
      int count, int low, int high, int argument, DecimalType value, int output, DecimalType type, boolean average)
      implements Accumulator {
    @Override
    public void add(Group group, SpecializedGetters row, int sign) {
      if (row.isNullAt(argument)) {
        return;
      }
      group.addToWord(count, sign);
      Decimal operand = row.getDecimal(argument, value.precision(), value.scale());
      if (value.precision() <= Decimal.MAX_LONG_DIGITS()) {
        plus(group, sign * operand.toUnscaledLong());
      } else {
        BigInteger unscaled = operand.toJavaBigDecimal().unscaledValue();
        plus(group, sign < 0 ? unscaled.negate() : unscaled);
      }
    }

    private void plus(Group group, long unscaled) {
      long before = group.word(low);
      long after = before + unscaled;
      if (((before ^ after) & (unscaled ^ after)) < 0) {
        plus(group, BigInteger.valueOf(unscaled));
      } else {
        group.setWord(low, after);
      }
    }

    private void plus(Group group, BigInteger unscaled) {
      BigInteger before = (BigInteger) group.object(high);
      group.setObject(high, before == null ? unscaled : before.add(unscaled));
    }

    private BigInteger sum(Group group) {
      BigInteger sum = BigInteger.valueOf(group.word(low));
      return group.object(high) == null ? sum : sum.add((BigInteger) group.object(high));
    }

    @Override
    public void merge(Group group, ByteReader delta) {
      group.addToWord(count, delta.readZigzag());
      int length = delta.readLength();
      if (length == 0) {
        plus(group, delta.readZigzag());
      } else {
        plus(group, new BigInteger(delta.buffer(), delta.skip(length), length));
      }
    }

    // Length 0 announces a sum that fits a word; equal sums have equal bytes.
    @Override
    public void write(Group group, ByteWriter out) {
      out.writeZigzag(group.word(count));
      BigInteger sum = group.object(high) == null ? null : sum(group);
      if (sum == null || sum.bitLength() < Long.SIZE) {
        out.writeVarint(0);
        out.writeZigzag(sum == null ? group.word(low) : sum.longValue());
      } else {
        byte[] bytes = sum.toByteArray();
        out.writeBytes(bytes, 0, bytes.length);
      }
    }

    @Override
    public void read(Group group, ByteReader in) {
      group.setWord(low, 0);
      group.setObject(high, null);
      group.setWord(count, 0);
      merge(group, in);
    }

    @Override
    public void result(Group group, UnsafeRowWriter out) {
      long n = group.word(count);
      if (n == 0) {
        out.setNullAt(output);
        return;
      }
      BigDecimal sum = new BigDecimal(sum(group), value.scale());
      BigDecimal result =
          average
              ? sum.divide(BigDecimal.valueOf(n), type.scale(), RoundingMode.HALF_UP)
              : sum.setScale(type.scale(), RoundingMode.HALF_UP);
      if (result.precision() > type.precision()) {
        out.setNullAt(output);
      } else {
        out.write(
            output, Decimal.apply(result, type.precision(), type.scale()), type.precision(), type.scale());
      }
    }
  }

  /**
   * SUM and AVG of floating-point numbers. Their addition is not associative, so a delta carries the operands, not
   * their sum: the result is that of adding row by row, whatever the batches and map tasks were. What is taken out is
   * added with the other sign, and leaves behind what rounding leaves, as in Flink.
   */
  private record FloatingTotal(
      int count,
      int sum,
      int operands,
      int argument,
      boolean singleArgument,
      int output,
      boolean singleResult,
      boolean average)
      implements Accumulator {

    private static final class Operands {
      double[] values = new double[4];
      int size;
    }

    private double operand(SpecializedGetters row) {
      return singleArgument ? row.getFloat(argument) : row.getDouble(argument);
    }

    private void plus(Group group, double operand) {
      double before = Double.longBitsToDouble(group.word(sum));
      // Flink sums FLOAT in FLOAT, and averages it in DOUBLE.
      double after = singleResult && !average ? (float) before + (float) operand : before + operand;
      group.setWord(sum, Double.doubleToLongBits(after));
    }

    @Override
    public void add(Group group, SpecializedGetters row, int sign) {
      if (!row.isNullAt(argument)) {
        group.addToWord(count, sign);
        plus(group, sign * operand(row));
      }
    }

    @Override
    public int collect(Group group, SpecializedGetters row, int sign) {
      if (row.isNullAt(argument)) {
        return 0;
      }
      Operands list = (Operands) group.object(operands);
      if (list == null) {
        list = new Operands();
        group.setObject(operands, list);
      } else if (list.size == list.values.length) {
        list.values = Arrays.copyOf(list.values, list.size * 2);
      }
      group.addToWord(count, sign);
      list.values[list.size++] = sign * operand(row);
      return Double.BYTES;
    }

    @Override
    public void writeDelta(Group group, ByteWriter out) {
      Operands list = (Operands) group.object(operands);
      int size = list == null ? 0 : list.size;
      out.writeZigzag(group.word(count));
      out.writeVarint(size);
      for (int i = 0; i < size; i++) {
        out.writeFixed64(Double.doubleToRawLongBits(list.values[i]));
      }
    }

    @Override
    public void merge(Group group, ByteReader delta) {
      group.addToWord(count, delta.readZigzag());
      int size = delta.readLength();
      for (int i = 0; i < size; i++) {
        plus(group, Double.longBitsToDouble(delta.readFixed64()));
      }
    }

    @Override
    public void write(Group group, ByteWriter out) {
      out.writeZigzag(group.word(count));
      out.writeFixed64(group.word(sum));
    }

    @Override
    public void read(Group group, ByteReader in) {
      group.setWord(count, in.readZigzag());
      group.setWord(sum, in.readFixed64());
    }

    @Override
    public void result(Group group, UnsafeRowWriter out) {
      long n = group.word(count);
      double total = Double.longBitsToDouble(group.word(sum));
      double result = average ? total / n : total;
      if (n == 0) {
        out.setNullAt(output);
      } else if (singleResult) {
        out.write(output, (float) result);
      } else {
        out.write(output, result);
      }
    }

    @Override
    public boolean ordered() {
      return true;
    }
  }

  /** MIN ({@code sign} -1) and MAX (1) of what fits a word. */
  private record WordExtreme(int present, int best, int argument, int output, Value.Word value, int sign)
      implements Accumulator {
    private void offer(Group group, long word) {
      long now = group.word(best);
      if (group.word(present) == 0 || (sign < 0 ? word < now : word > now)) {
        group.setWord(present, 1);
        group.setWord(best, word);
      }
    }

    @Override
    public void add(Group group, SpecializedGetters row, int sign) {
      if (!row.isNullAt(argument)) {
        offer(group, value.get(row, argument));
      }
    }

    @Override
    public void merge(Group group, ByteReader delta) {
      if (delta.readByte() != 0) {
        offer(group, delta.readZigzag());
      }
    }

    @Override
    public void write(Group group, ByteWriter out) {
      out.writeByte((int) group.word(present));
      if (group.word(present) != 0) {
        out.writeZigzag(group.word(best));
      }
    }

    @Override
    public void read(Group group, ByteReader in) {
      group.setWord(present, in.readByte());
      group.setWord(best, group.word(present) == 0 ? 0 : in.readZigzag());
    }

    @Override
    public void result(Group group, UnsafeRowWriter out) {
      if (group.word(present) == 0) {
        out.setNullAt(output);
      } else {
        value.set(out, output, group.word(best));
      }
    }
  }

  /** MIN and MAX of strings, binaries and wide decimals. */
  private static final class BytesExtreme implements Accumulator {
    private final int best;
    private final int argument;
    private final int output;
    private final Value.Bytes value;
    private final int sign;
    private final Value.Slice slice = new Value.Slice();

    BytesExtreme(int best, int argument, int output, Value.Bytes value, int sign) {
      this.best = best;
      this.argument = argument;
      this.output = output;
      this.value = value;
      this.sign = sign;
    }

    private int offer(Group group, byte[] candidate) {
      byte[] now = (byte[]) group.object(best);
      if (now != null && value.order().compare(candidate, now) * sign <= 0) {
        return 0;
      }
      group.setObject(best, candidate);
      return candidate.length - (now == null ? 0 : now.length);
    }

    @Override
    public void add(Group group, SpecializedGetters row, int sign) {
      collect(group, row, sign);
    }

    @Override
    public int collect(Group group, SpecializedGetters row, int sign) {
      if (row.isNullAt(argument)) {
        return 0;
      }
      value.get(row, argument, slice);
      return offer(group, slice.copy());
    }

    @Override
    public void merge(Group group, ByteReader delta) {
      if (delta.readByte() != 0) {
        offer(group, delta.readBytes());
      }
    }

    @Override
    public void write(Group group, ByteWriter out) {
      byte[] now = (byte[]) group.object(best);
      out.writeByte(now == null ? 0 : 1);
      if (now != null) {
        out.writeBytes(now, 0, now.length);
      }
    }

    @Override
    public void read(Group group, ByteReader in) {
      group.setObject(best, in.readByte() == 0 ? null : in.readBytes());
    }

    @Override
    public void result(Group group, UnsafeRowWriter out) {
      byte[] now = (byte[]) group.object(best);
      if (now == null) {
        out.setNullAt(output);
      } else {
        value.set(out, output, now);
      }
    }
  }
}
