package io.tidemill.state;

import static java.util.Map.entry;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
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
  /** Pages of bags; those of {@link DistinctValues} come before. */
  private static final int BAGS = 1 << 20;

  final List<Accumulator> all = new ArrayList<>();
  /** Those that may need pages. */
  final List<Paged> paged = new ArrayList<>();

  private final boolean ordered;
  /** Whether an accumulator has something to do when a batch is through. */
  final boolean settling;

  final Overflows overflows = new Overflows();
  private final boolean retracting;
  private final int rows;
  private int words;
  private int objects;
  private int sets;
  private int bags = BAGS;
  private final Map<Shared, Accumulator> shared = new HashMap<>();

  /** How many sums, since somebody set it to 0, did not fit their type. */
  static final class Overflows {
    long count;
  }

  /** What calls over the same operand have in common; {@code fed} is the output of one that stands behind DISTINCT. */
  private record Shared(Class<?> what, List<String> arguments, String filter, boolean nulls, int fed) {}

  /** An aggregate call whose columns have been found: ordinals in the argument row, types from the input. */
  record Bound(
      AggregateSpec.Call call,
      int argument,
      DataType argumentType,
      int second,
      int filter,
      int output,
      DataType type,
      boolean fed) {
    IllegalArgumentException refuse(String reason) {
      return new IllegalArgumentException(call + ": " + reason);
    }

    boolean readsValues() {
      return !call.function().equals("COUNT");
    }

    /** The same call behind DISTINCT: its rows hold nothing but the argument, which is never null. */
    Bound overDistinct() {
      return new Bound(call, readsValues() ? 0 : -1, argumentType, -1, -1, output, type, true);
    }

    Sortable form() {
      if (argumentType == null) {
        throw refuse("an argument is needed");
      }
      Sortable form = Sortable.of(argumentType);
      if (form == null) {
        throw refuse(argumentType.sql() + " is not supported");
      }
      return form;
    }

    /** Whether NULLs are values of this call. */
    boolean keepsNulls() {
      return KEEPING_NULLS.contains(call.function())
          && !call.settings().contains("IGNORE NULLS")
          && !call.settings().contains("ABSENT ON NULL");
    }

    private Shared shared(Class<?> what, boolean nulls) {
      return new Shared(what, call.arguments(), call.filter(), nulls, fed ? output : -1);
    }
  }

  @FunctionalInterface
  private interface Factory {
    Accumulator create(Accumulators slots, Bound call);
  }

  private static final Map<String, Factory> FUNCTIONS =
      Map.ofEntries(
          entry("COUNT", Accumulators::count),
          entry("SUM", (slots, call) -> slots.total(call, false)),
          entry("AVG", (slots, call) -> slots.total(call, true)),
          entry("MIN", (slots, call) -> slots.extreme(call, -1)),
          entry("MAX", (slots, call) -> slots.extreme(call, 1)),
          entry("FIRST_VALUE", (slots, call) -> slots.edge(call, -1)),
          entry("LAST_VALUE", (slots, call) -> slots.edge(call, 1)),
          entry("SINGLE_VALUE", Accumulators::only),
          entry("LAG", Accumulators::lag),
          entry("LISTAGG", Accumulators::joined),
          entry("ARRAY_AGG", Accumulators::array),
          entry("COLLECT", Accumulators::multiset),
          entry("PERCENTILE", Accumulators::percentile),
          entry("JSON_ARRAYAGG", Accumulators::jsonArray),
          entry("JSON_OBJECTAGG", Accumulators::jsonObject));

  /** Those to which DISTINCT says nothing, or which see to it themselves. */
  private static final Set<String> OWN_DISTINCT = Set.of("MIN", "MAX", "COLLECT");

  /** Those that values can be fed to, one by one, where they only come and in any order. */
  private static final Set<String> COMMUTATIVE = Set.of("COUNT", "SUM", "AVG");

  private static final Set<String> KEEPING_NULLS = Set.of("ARRAY_AGG", "JSON_ARRAYAGG", "SINGLE_VALUE");

  private static final Set<String> NEVER_DISTINCT = Set.of("PERCENTILE", "JSON_OBJECTAGG", "SINGLE_VALUE");

  /** {@code before}: how many columns the result has before those of the calls. */
  Accumulators(AggregateSpec spec, StructType arguments, int before) {
    retracting = spec.retracting();
    rows = retracting ? words++ : -1;
    if (retracting) {
      all.add(new Count(rows, -1, -1));
    }
    for (int i = 0; i < spec.aggregates().size(); i++) {
      AggregateSpec.Call call = spec.aggregates().get(i);
      Factory factory = FUNCTIONS.get(call.function());
      if (factory == null) {
        throw new IllegalArgumentException(
            call + ": unknown function; known are " + FUNCTIONS.keySet().stream().sorted().toList());
      }
      Bound bound = bind(call, before + i, arguments);
      if (call.distinct() && !OWN_DISTINCT.contains(call.function())) {
        distinct(bound, factory);
      } else {
        place(factory.create(this, bound), bound.filter());
      }
    }
    ordered = all.stream().anyMatch(Accumulator::ordered);
    settling = retracting || paged.stream().anyMatch(p -> p instanceof ValueCounts);
  }

  Group newGroups(int capacity) {
    return new Group(words, objects, capacity);
  }

  /** Whether deltas have to be merged in their order: it can be seen in a result, or tells what was never put in. */
  boolean isOrdered() {
    return ordered || retracting;
  }

  /** How many rows a group has, over input that retracts. */
  long rows(Group group) {
    return group.word(rows);
  }

  /** How many rows a delta puts in, over input that retracts; the number is what comes first in it. */
  static long rows(ByteReader delta) {
    return delta.readZigzag();
  }

  private static Bound bind(AggregateSpec.Call call, int output, StructType arguments) {
    List<String> names = call.arguments();
    int argument = names.isEmpty() ? -1 : arguments.fieldIndex(names.get(0));
    int second = names.size() < 2 ? -1 : arguments.fieldIndex(names.get(1));
    int filter = call.filter() == null ? -1 : arguments.fieldIndex(call.filter());
    DataType argumentType = argument < 0 ? null : arguments.apply(argument).dataType();
    return new Bound(call, argument, argumentType, second, filter, output, DataType.fromDDL(call.type()), false);
  }

  /** Makes an accumulator one of {@link #all}, unless it is shared and has its place. */
  private void place(Accumulator accumulator, int filter) {
    for (Accumulator placed : all) {
      if (placed == accumulator || placed instanceof Filtered filtered && filtered.inner() == accumulator) {
        return;
      }
    }
    all.add(filter < 0 ? accumulator : new Filtered(accumulator, filter));
  }

  /**
   * Behind DISTINCT. Where values only come, a set of them is enough; it feeds out of order, which sums do not show.
   */
  private void distinct(Bound call, Factory factory) {
    if (call.call().arguments().isEmpty()) {
      throw call.refuse("DISTINCT needs an argument");
    }
    String function = call.call().function();
    if (NEVER_DISTINCT.contains(function)) {
      throw call.refuse("DISTINCT is not supported");
    }
    if (retracting || !COMMUTATIVE.contains(function)) {
      ValueCounts counts = counts(call);
      place(counts, call.filter());
      counts.feed(factory.create(this, call.overDistinct()));
      return;
    }
    DistinctValues set =
        (DistinctValues) shared.computeIfAbsent(call.shared(DistinctValues.class, false), s -> distinctSet(call));
    place(set, call.filter());
    set.feed(factory.create(this, call.overDistinct()), call.readsValues());
  }

  private DistinctValues distinctSet(Bound call) {
    Value value = Value.of(call.argumentType());
    if (value == null) {
      throw call.refuse("DISTINCT over " + call.argumentType().sql() + " is not supported");
    }
    DistinctValues set = new DistinctValues(sets++, value, call.argument(), words++, words++, objects++);
    paged.add(set);
    return set;
  }

  /** The values of the call's argument with their counts. */
  private ValueCounts counts(Bound call) {
    boolean nulls = call.keepsNulls();
    Sortable form = nulls ? call.form().orNull() : call.form();
    int argument = call.argument();
    ValueCounts.Operand operand = row -> !nulls && row.isNullAt(argument) ? null : form.get(row, argument);
    return (ValueCounts)
        shared.computeIfAbsent(call.shared(ValueCounts.class, nulls), s -> counts(operand, row -> 1, form));
  }

  private ValueCounts counts(ValueCounts.Operand operand, ValueCounts.Weight weight, Sortable form) {
    ValueCounts counts = new ValueCounts(bags++, operand, weight, form, objects++);
    paged.add(counts);
    return counts;
  }

  /** The values of the call's argument in their order. */
  private ValueSequence sequence(Bound call, ValueSequence.Reader reader) {
    boolean nulls = call.keepsNulls();
    ValueSequence sequence =
        (ValueSequence)
            shared.computeIfAbsent(
                call.shared(ValueSequence.class, nulls),
                s -> {
                  int slot = bags;
                  bags += 2;
                  ValueSequence made =
                      new ValueSequence(
                          slot, call.argument(), call.form(), nulls, retracting, words++, objects++);
                  paged.add(made);
                  return made;
                });
    sequence.read(reader);
    return sequence;
  }

  private Accumulator edge(Bound call, int sign) {
    Sortable form = sameType(call);
    return retracting
        ? sequence(call, Readings.edge(form, sign, call.output()))
        : new Edge(objects++, call.argument(), call.output(), form, sign);
  }

  /** The first setting says how many rows back, the second argument what there is where no row is. */
  private Accumulator lag(Bound call) {
    if (retracting) {
      throw call.refuse("a frame with a bound is not supported");
    }
    List<String> settings = call.call().settings();
    int back = settings.isEmpty() ? 1 : Integer.parseInt(settings.get(0));
    if (back < 0) {
      throw call.refuse("the number of rows is negative");
    }
    return new Lag(objects++, objects++, call.argument(), call.second(), call.output(), sameType(call).orNull(), back);
  }

  private Accumulator only(Bound call) {
    return sequence(call, Readings.only(sameType(call), call.output()));
  }

  private Accumulator joined(Bound call) {
    List<String> settings = call.call().settings();
    return sequence(call, Readings.joined(settings.isEmpty() ? "," : settings.get(0), call.output()));
  }

  private Accumulator array(Bound call) {
    return sequence(call, Readings.array(call.argumentType(), call.form(), call.output()));
  }

  private Accumulator jsonArray(Bound call) {
    return sequence(call, Readings.jsonArray(call.output()));
  }

  private Accumulator jsonObject(Bound call) {
    boolean absentOnNull = call.call().settings().contains("ABSENT ON NULL");
    ValueCounts.Operand member = Readings.member(call.argument(), call.second(), absentOnNull);
    ValueCounts counts = counts(member, row -> 1, null);
    counts.read(Readings.jsonObject(call.output()));
    return counts;
  }

  private Accumulator multiset(Bound call) {
    ValueCounts counts = counts(call);
    counts.read(Readings.multiset(call.argumentType(), call.form(), call.call().distinct(), call.output()));
    return counts;
  }

  /** The second argument says how often a value counts; settings are the shares that are asked for. */
  private Accumulator percentile(Bound call) {
    Sortable form = call.form();
    int argument = call.argument();
    int often = call.second();
    ValueCounts.Operand operand =
        row ->
            row.isNullAt(argument) || often >= 0 && (row.isNullAt(often) || row.getLong(often) <= 0)
                ? null
                : form.get(row, argument);
    ValueCounts counts = counts(operand, often < 0 ? row -> 1 : row -> row.getLong(often), null);
    double[] shares = call.call().settings().stream().mapToDouble(Double::parseDouble).toArray();
    counts.read(Readings.percentile(shares, call.type(), call.output()));
    return counts;
  }

  /** The form of an argument whose type is the result's. */
  private static Sortable sameType(Bound call) {
    Sortable form = call.form();
    if (!DataType.equalsStructurally(call.argumentType(), call.type(), true)) {
      throw call.refuse(
          "the result has the argument's type " + call.argumentType().sql() + ", not " + call.type().sql());
    }
    return form;
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
      int width = Long.SIZE - Byte.SIZE * to.defaultSize();
      return new IntegerTotal(
          words++, words++, call.argument(), argument, call.output(), result, width, average, overflows);
    }
    if (from instanceof DecimalType decimal && to instanceof DecimalType result) {
      return new DecimalTotal(
          words++, words++, objects++, call.argument(), decimal, call.output(), result, average, overflows);
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
    Sortable form = sameType(call);
    Value value = Value.of(call.argumentType());
    if (value instanceof Value.Bytes bytes && bytes.order() == null) {
      throw call.refuse(call.argumentType().sql() + " has no order");
    }
    if (retracting) {
      ValueCounts counts = counts(call);
      counts.read(Readings.extreme(form, sign, call.output()));
      return counts;
    }
    return value instanceof Value.Word word
        ? new WordExtreme(words++, words++, call.argument(), call.output(), word, sign)
        : new BytesExtreme(objects++, call.argument(), call.output(), (Value.Bytes) value, sign);
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
    public long settle(Group group) {
      return inner.settle(group);
    }

    @Override
    public void drop(Group group) {
      inner.drop(group);
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

  /**
   * SUM and AVG of integers. 64 bits wrap, and cutting them to the result's width, which has {@code spare} bits less, is
   * wrapping in that width.
   */
  private record IntegerTotal(
      int count,
      int sum,
      int argument,
      Value.Word value,
      int output,
      Value.Word type,
      int spare,
      boolean average,
      Overflows overflows)
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
      long before = group.word(sum);
      long more = delta.readZigzag();
      long after = before + more;
      if (((before ^ after) & (more ^ after)) < 0) {
        overflows.count++;
      }
      group.setWord(sum, after);
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
        long result = average ? group.word(sum) / n : group.word(sum);
        if (result << spare >> spare != result) {
          overflows.count++;
        }
        type.set(out, output, result);
      }
    }
  }

  /**
   * SUM and AVG of decimals, exact: the sum of unscaled values is a word plus, once that overflows, a big integer.
   * A result beyond the type's precision is NULL, and comes back when the sum does.
   */
  private record DecimalTotal(
      int count,
      int low,
      int high,
      int argument,
      DecimalType value,
      int output,
      DecimalType type,
      boolean average,
      Overflows overflows)
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
        overflows.count++;
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

  /** What keeps one value of a group, as bytes: none at first, then the best that was offered. */
  private abstract static class Kept implements Accumulator {
    private final int kept;
    final int argument;
    private final int output;

    Kept(int kept, int argument, int output) {
      this.kept = kept;
      this.argument = argument;
      this.output = output;
    }

    /** Whether a value takes the place of the one that is kept. */
    abstract boolean isBetter(byte[] value, byte[] now);

    abstract byte[] get(SpecializedGetters row);

    abstract void set(UnsafeRowWriter out, int output, byte[] value);

    final byte[] now(Group group) {
      return (byte[]) group.object(kept);
    }

    private int offer(Group group, byte[] value) {
      byte[] now = now(group);
      if (now != null && !isBetter(value, now)) {
        return 0;
      }
      group.setObject(kept, value);
      return value.length - (now == null ? 0 : now.length);
    }

    @Override
    public final void add(Group group, SpecializedGetters row, int sign) {
      collect(group, row, sign);
    }

    @Override
    public int collect(Group group, SpecializedGetters row, int sign) {
      return row.isNullAt(argument) ? 0 : offer(group, get(row));
    }

    @Override
    public final void merge(Group group, ByteReader delta) {
      if (delta.readByte() != 0) {
        offer(group, delta.readBytes());
      }
    }

    @Override
    public final void write(Group group, ByteWriter out) {
      byte[] now = now(group);
      out.writeByte(now == null ? 0 : 1);
      if (now != null) {
        out.writeBytes(now, 0, now.length);
      }
    }

    @Override
    public final void read(Group group, ByteReader in) {
      group.setObject(kept, in.readByte() == 0 ? null : in.readBytes());
    }

    @Override
    public final void result(Group group, UnsafeRowWriter out) {
      byte[] now = now(group);
      if (now == null) {
        out.setNullAt(output);
      } else {
        set(out, output, now);
      }
    }
  }

  /** FIRST_VALUE ({@code sign} -1) and LAST_VALUE (1) where rows only come. NULLs are no values. */
  private static final class Edge extends Kept {
    private final Sortable form;
    private final int sign;

    Edge(int found, int argument, int output, Sortable form, int sign) {
      super(found, argument, output);
      this.form = form;
      this.sign = sign;
    }

    @Override
    boolean isBetter(byte[] value, byte[] now) {
      return sign > 0;
    }

    @Override
    byte[] get(SpecializedGetters row) {
      return form.get(row, argument);
    }

    @Override
    void set(UnsafeRowWriter out, int output, byte[] value) {
      form.set(out, output, value);
    }

    @Override
    public int collect(Group group, SpecializedGetters row, int rowSign) {
      boolean known = sign < 0 && now(group) != null;
      return known ? 0 : super.collect(group, row, rowSign);
    }

    @Override
    public boolean ordered() {
      return true;
    }
  }

  /** LAG: the last values, as many as it looks back and one, and what the last row says is there where no row is. */
  private record Lag(int values, int instead, int argument, int other, int output, Sortable form, int back)
      implements Accumulator {
    @SuppressWarnings("unchecked")
    private ArrayDeque<byte[]> values(Group group) {
      if (group.object(values) == null) {
        group.setObject(values, new ArrayDeque<byte[]>());
      }
      return (ArrayDeque<byte[]>) group.object(values);
    }

    @Override
    public void add(Group group, SpecializedGetters row, int sign) {
      ArrayDeque<byte[]> kept = values(group);
      kept.add(form.get(row, argument));
      if (kept.size() > back + 1) {
        kept.remove();
      }
      group.setObject(instead, other < 0 ? null : form.get(row, other));
    }

    @Override
    public void merge(Group group, ByteReader delta) {
      throw new UnsupportedOperationException("LAG takes row by row");
    }

    @Override
    public void write(Group group, ByteWriter out) {
      out.writeVarint(values(group).size());
      values(group).forEach(value -> out.writeBytes(value, 0, value.length));
    }

    @Override
    public void read(Group group, ByteReader in) {
      group.setObject(values, null);
      group.setObject(instead, null);
      for (int size = in.readLength(); size > 0; size--) {
        values(group).add(in.readBytes());
      }
    }

    @Override
    public void result(Group group, UnsafeRowWriter out) {
      byte[] value = (byte[]) (values(group).size() > back ? values(group).getFirst() : group.object(instead));
      if (value == null) {
        out.setNullAt(output);
      } else {
        form.set(out, output, value);
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
  private static final class BytesExtreme extends Kept {
    private final Value.Bytes value;
    private final int sign;
    private final Value.Slice slice = new Value.Slice();

    BytesExtreme(int best, int argument, int output, Value.Bytes value, int sign) {
      super(best, argument, output);
      this.value = value;
      this.sign = sign;
    }

    @Override
    boolean isBetter(byte[] candidate, byte[] now) {
      return value.order().compare(candidate, now) * sign > 0;
    }

    @Override
    byte[] get(SpecializedGetters row) {
      value.get(row, argument, slice);
      return slice.copy();
    }

    @Override
    void set(UnsafeRowWriter out, int output, byte[] bytes) {
      value.set(out, output, bytes);
    }
  }
}
