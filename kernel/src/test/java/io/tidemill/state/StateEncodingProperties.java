package io.tidemill.state;

import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Properties of the stored forms, each over many random cases from a seed given on the command line. Prints one line per
 * property; the first failure ends the run with its seed in the message. Started by tests/kernel/test_kernel_properties.py.
 */
public final class StateEncodingProperties {
  private static final StructType ARGUMENTS =
      (StructType)
          DataType.fromDDL(
              "i INT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(12,2), w DECIMAL(36,6), s STRING, b BINARY, t TIMESTAMP,"
                  + " a ARRAY<INT>, r STRUCT<x: INT, y: STRING>, keep BOOLEAN");
  private static final List<AggregateSpec.Call> CALLS =
      List.of(
          call("COUNT", null, false, null, "bigint"),
          call("COUNT", "s", false, "keep", "bigint"),
          call("SUM", "i", false, null, "int"),
          call("SUM", "l", false, "keep", "bigint"),
          call("AVG", "l", false, null, "bigint"),
          call("SUM", "n", false, null, "decimal(38,2)"),
          call("AVG", "n", false, null, "decimal(38,6)"),
          call("SUM", "w", false, null, "decimal(38,6)"),
          call("MIN", "w", false, null, "decimal(36,6)"),
          call("MAX", "d", false, null, "double"),
          call("MIN", "s", false, null, "string"),
          call("MAX", "b", false, "keep", "binary"),
          call("MIN", "t", false, null, "timestamp"),
          call("COUNT", "s", true, null, "bigint"),
          call("COUNT", "i", true, "keep", "bigint"),
          call("SUM", "i", true, null, "int"),
          call("AVG", "i", true, null, "int"),
          call("COUNT", "a", true, null, "bigint"),
          call("COUNT", "r", true, null, "bigint"),
          call("SUM", "w", true, null, "decimal(38,6)"));
  private static final List<AggregateSpec.Call> ORDERED_CALLS =
      List.of(
          call("SUM", "f", false, null, "float"),
          call("AVG", "f", false, null, "float"),
          call("SUM", "d", false, "keep", "double"));

  private static final List<AggregateSpec.Call> COLLECTING_CALLS =
      List.of(
          call("FIRST_VALUE", "s", false, null, "string"),
          call("LAST_VALUE", "w", false, "keep", "decimal(36,6)"),
          call("FIRST_VALUE", "i", false, null, "int"),
          call("LAST_VALUE", "r", false, null, "struct<x: int, y: string>"),
          call("LISTAGG", "s", false, null, "string"),
          call("LISTAGG", "s", true, "keep", "string"),
          call("ARRAY_AGG", "i", false, null, "array<int>"),
          call("ARRAY_AGG", "d", true, null, "array<double>"),
          call("ARRAY_AGG", "a", false, null, "array<array<int>>"),
          call("COLLECT", "w", false, null, "map<decimal(36,6),int>"),
          call("COLLECT", "f", true, "keep", "map<float,int>"),
          call("PERCENTILE", "d", false, null, "double", "0.5"),
          call("JSON_ARRAYAGG", "s", false, null, "string", "NULL ON NULL"));
  /** Over rows that come and go. */
  private static final List<AggregateSpec.Call> RETRACTING_CALLS = new ArrayList<>();

  static {
    RETRACTING_CALLS.addAll(CALLS);
    RETRACTING_CALLS.addAll(ORDERED_CALLS);
    RETRACTING_CALLS.addAll(COLLECTING_CALLS);
  }

  private static AggregateSpec.Call call(
      String function, String argument, boolean distinct, String filter, String type, String... settings) {
    List<String> arguments = argument == null ? List.of() : List.of(argument);
    return new AggregateSpec.Call(function, arguments, List.of(settings), distinct, filter, "x", type);
  }

  public static void main(String[] args) {
    long seed = Long.parseLong(args[0]);
    Map<String, Consumer<Random>> properties = new java.util.LinkedHashMap<>();
    properties.put("numbers and bytes come back as they were written", StateEncodingProperties::numbers);
    properties.put("torn bytes are refused", StateEncodingProperties::torn);
    properties.put("words keep the order of doubles", StateEncodingProperties::orderedDoubles);
    properties.put("a byte set is a set, and its stored form is the set", StateEncodingProperties::byteSet);
    properties.put("a split moves values from one bucket to the new one only", StateEncodingProperties::addresses);
    properties.put("state that is read and written again has the same bytes", r -> roundTrip(r, CALLS, false));
    properties.put("ordered state that is read and written again has the same bytes", r -> roundTrip(r, ORDERED_CALLS, false));
    properties.put("collected state has the same bytes", r -> roundTrip(r, COLLECTING_CALLS, false));
    properties.put("state of rows that come and go has the same bytes", r -> roundTrip(r, RETRACTING_CALLS, true));
    properties.put("rows that come and go leave no page behind", StateEncodingProperties::comeAndGo);
    properties.put("state does not depend on how rows were cut into deltas", StateEncodingProperties::cuts);
    properties.put("a distinct set of any size is the set of its values", StateEncodingProperties::distinct);
    properties.put("a bag is a sorted map, in pages or not", StateEncodingProperties::bag);
    for (Map.Entry<String, Consumer<Random>> property : properties.entrySet()) {
      for (int i = 0; i < 25; i++) {
        long caseSeed = seed * 1_000_003 + i;
        try {
          property.getValue().accept(new Random(caseSeed));
        } catch (RuntimeException | AssertionError e) {
          throw new AssertionError(property.getKey() + ": case " + caseSeed, e);
        }
      }
      System.out.println("holds: " + property.getKey());
    }
    golden();
    System.out.println("holds: version 1 is what it was");
  }

  private static void check(boolean condition, Supplier<String> otherwise) {
    if (!condition) {
      throw new AssertionError(otherwise.get());
    }
  }

  private static long anyLong(Random random) {
    return switch (random.nextInt(4)) {
      case 0 -> random.nextInt(5) - 2;
      case 1 -> random.nextBoolean() ? Long.MAX_VALUE : Long.MIN_VALUE;
      case 2 -> random.nextInt();
      default -> random.nextLong() >> random.nextInt(64);
    };
  }

  private static byte[] anyBytes(Random random, int most) {
    byte[] bytes = new byte[random.nextInt(most + 1)];
    random.nextBytes(bytes);
    return bytes;
  }

  private static void numbers(Random random) {
    List<Consumer<ByteWriter>> writes = new ArrayList<>();
    List<Consumer<ByteReader>> reads = new ArrayList<>();
    for (int i = 0; i < 100; i++) {
      long number = anyLong(random);
      byte[] bytes = anyBytes(random, 300);
      switch (random.nextInt(4)) {
        case 0 -> {
          writes.add(w -> w.writeVarint(number));
          reads.add(r -> check(r.readVarint() == number, () -> "varint " + number));
        }
        case 1 -> {
          writes.add(w -> w.writeZigzag(number));
          reads.add(r -> check(r.readZigzag() == number, () -> "zigzag " + number));
        }
        case 2 -> {
          writes.add(w -> w.writeFixed64(number));
          reads.add(r -> check(r.readFixed64() == number, () -> "fixed " + number));
        }
        default -> {
          writes.add(w -> w.writeBytes(bytes, 0, bytes.length));
          reads.add(r -> check(Arrays.equals(r.readBytes(), bytes), () -> "bytes " + bytes.length));
        }
      }
    }
    ByteWriter writer = new ByteWriter(1);
    writes.forEach(write -> write.accept(writer));
    ByteReader reader = new ByteReader().over(writer.toBytes());
    reads.forEach(read -> read.accept(reader));
    check(!reader.hasMore(), () -> "bytes left over");
  }

  private static void torn(Random random) {
    ByteWriter writer = new ByteWriter(1);
    byte[] bytes = anyBytes(random, 50);
    writer.writeZigzag(Long.MIN_VALUE);
    writer.writeBytes(bytes, 0, bytes.length);
    writer.writeFixed64(random.nextLong());
    byte[] whole = writer.toBytes();
    ByteReader reader = new ByteReader().over(whole, 0, random.nextInt(whole.length));
    try {
      reader.readZigzag();
      reader.readBytes();
      reader.readFixed64();
    } catch (IllegalStateException expected) {
      check(expected.getMessage().contains("damaged"), expected::getMessage);
      return;
    }
    throw new AssertionError("torn bytes were read");
  }

  private static double anyDouble(Random random) {
    double[] special = {0.0, -0.0, Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY, Double.MIN_VALUE};
    return random.nextInt(3) == 0 ? special[random.nextInt(special.length)] : random.nextGaussian() * 1e9;
  }

  private static void orderedDoubles(Random random) {
    double a = anyDouble(random);
    double b = anyDouble(random);
    int words = Long.compare(Value.ordered(a), Value.ordered(b));
    check(words == Integer.signum(Double.compare(a, b)), () -> a + " against " + b);
    check(Double.compare(Value.unordered(Value.ordered(a)), a) == 0, () -> "lost " + a);
  }

  private static String text(byte[] bytes, int from, int length) {
    return HexFormat.of().formatHex(bytes, from, from + length);
  }

  private static Set<String> content(ByteSet set) {
    Set<String> values = new LinkedHashSet<>();
    ByteReader reader = new ByteReader().over(set.arena(), 0, set.arenaSize());
    while (reader.hasMore()) {
      int length = reader.readLength();
      values.add(text(set.arena(), reader.skip(length), length));
    }
    return values;
  }

  private static void byteSet(Random random) {
    ByteSet set = new ByteSet();
    ByteSet copy = new ByteSet();
    Set<String> model = new LinkedHashSet<>();
    int rounds = random.nextInt(2000);
    int longest = random.nextBoolean() ? 2 : 200;
    for (int i = 0; i < rounds; i++) {
      byte[] value = anyBytes(random, longest);
      boolean fresh = model.add(text(value, 0, value.length));
      check(set.add(value, 0, value.length) == fresh, () -> "add said the opposite of " + fresh);
      if (random.nextInt(500) == 0) {
        copy.load(set.arena(), 0, set.arenaSize());
        check(copy.size() == model.size(), () -> "loaded " + copy.size());
        check(!copy.add(value, 0, value.length), () -> "a loaded set does not know its values");
      }
    }
    check(set.size() == model.size(), () -> set.size() + " of " + model.size());
    check(List.copyOf(content(set)).equals(List.copyOf(model)), () -> "order of insertion");
  }

  private static void addresses(Random random) {
    int count = 1 + random.nextInt(5000);
    int source = count - Integer.highestOneBit(count);
    for (int i = 0; i < 200; i++) {
      long hash = random.nextLong();
      int before = DistinctValues.address(hash, count);
      int after = DistinctValues.address(hash, count + 1);
      check(before >= 0 && before < count, () -> "address " + before + " of " + count);
      check(after == before || (before == source && after == count), () -> before + " went to " + after);
    }
  }

  /** A row of arguments as an operator sees it: packed into a byte array, each value null one time in five. */
  private static UnsafeRow anyRow(Random random, UnsafeProjection projection, int variety) {
    Object[] values = {
      random.nextInt(variety) - variety / 2,
      anyLong(random),
      (float) random.nextInt(1000) / 7,
      anyDouble(random),
      Decimal.apply(BigDecimal.valueOf(random.nextInt(2_000_000) - 1_000_000L, 2), 12, 2),
      Decimal.apply(new BigDecimal(new java.math.BigInteger(random.nextBoolean() ? 110 : 40, random), 6), 36, 6),
      UTF8String.fromString("user-" + random.nextInt(variety)),
      anyBytes(random, 6),
      random.nextLong() >> 20,
      new GenericArrayData(new Object[] {random.nextInt(variety), 1, null}),
      new GenericInternalRow(new Object[] {random.nextInt(3), UTF8String.fromString("y" + random.nextInt(variety))}),
      random.nextBoolean()
    };
    for (int i = 0; i < values.length; i++) {
      if (random.nextInt(5) == 0) {
        values[i] = null;
      }
    }
    return row(projection, values);
  }

  private static UnsafeRow row(UnsafeProjection projection, Object... values) {
    byte[] packed = PackedRow.packRow(projection.apply(new GenericInternalRow(values)), 0);
    return PackedRow.point(new UnsafeRow(values.length), packed);
  }

  /** A row that comes (1) or goes (-1). */
  private record Signed(UnsafeRow row, int sign) {}

  private static List<Signed> anyRows(Random random, int most, int variety) {
    return anyChanges(random, most, variety, null);
  }

  /** Changes of the rows that are there; all come if {@code there} is null. */
  private static List<Signed> anyChanges(Random random, int most, int variety, List<UnsafeRow> there) {
    UnsafeProjection projection = UnsafeProjection.create(ARGUMENTS);
    List<Signed> rows = new ArrayList<>();
    for (int i = random.nextInt(most + 1); i > 0; i--) {
      if (there != null && !there.isEmpty() && random.nextInt(5) < 2) {
        rows.add(new Signed(there.remove(random.nextInt(there.size())), -1));
        continue;
      }
      UnsafeRow row = anyRow(random, projection, variety);
      rows.add(new Signed(row, 1));
      if (there != null) {
        there.add(row);
      }
    }
    return rows;
  }

  private static Pages pagesIn(Map<Long, byte[]> store) {
    return new Pages() {
      @Override
      public byte[] get(long page) {
        return store.get(page);
      }

      @Override
      public void put(long page, byte[] content) {
        store.put(page, content);
      }

      @Override
      public void remove(long page) {
        check(store.remove(page) != null, () -> "page " + page + " was removed and is not there");
      }

      @Override
      public Expiry expiry() {
        return Expiry.NEVER;
      }
    };
  }

  /** An operator's two sides without Spark: map tasks that write deltas, and one group with a store of its own. */
  private static final class Side {
    final Accumulators accumulators;
    final Map<Long, byte[]> store = new HashMap<>();
    final Group group;

    final int outputs;

    Side(List<AggregateSpec.Call> calls, boolean retracting) {
      AggregateSpec spec = new AggregateSpec("test", List.of(), calls, true, retracting, null, null, null);
      accumulators = new Accumulators(spec, ARGUMENTS, 0);
      outputs = calls.size();
      group = accumulators.newGroups(1);
      Pages pages = pagesIn(store);
      accumulators.paged.forEach(each -> each.keepIn(pages));
    }

    /** A batch of one delta. */
    void take(List<Signed> rows) {
      merge(rows);
      settle();
    }

    void merge(List<Signed> rows) {
      Group collected = accumulators.newGroups(1);
      ByteWriter writer = new ByteWriter(16);
      for (Signed signed : rows) {
        accumulators.all.forEach(accumulator -> accumulator.collect(collected, signed.row(), signed.sign()));
      }
      accumulators.all.forEach(accumulator -> accumulator.writeDelta(collected, writer));
      ByteReader delta = new ByteReader().over(writer.toBytes());
      accumulators.all.forEach(accumulator -> accumulator.merge(group, delta));
      check(!delta.hasMore(), () -> "a delta was not read to its end");
    }

    long settle() {
      long unknown = 0;
      for (Accumulator accumulator : accumulators.all) {
        unknown = Math.max(unknown, accumulator.settle(group));
      }
      return unknown;
    }

    byte[] state() {
      ByteWriter writer = new ByteWriter(16);
      accumulators.all.forEach(accumulator -> accumulator.write(group, writer));
      return writer.toBytes();
    }

    void restore(byte[] state) {
      ByteReader reader = new ByteReader().over(state);
      accumulators.all.forEach(accumulator -> accumulator.read(group, reader));
      check(!reader.hasMore(), () -> "state was not read to its end");
    }

    byte[] result() {
      UnsafeRowWriter writer = new UnsafeRowWriter(outputs);
      writer.resetRowWriter();
      accumulators.all.forEach(accumulator -> accumulator.result(group, writer));
      return writer.getRow().getBytes();
    }
  }

  /** A bag behaves as a sorted map, through growth, shrinking and restarts, and leaves no page behind. */
  private static void bag(Random random) {
    Map<Long, byte[]> store = new HashMap<>();
    TreeMap<byte[], long[]> model = new TreeMap<>(Arrays::compareUnsigned);
    Bag bag = new Bag(2, pagesIn(store));
    int variety = 1 << (2 + random.nextInt(10));
    for (int batch = 0; batch < 12; batch++) {
      boolean shrink = batch >= 8;
      for (int i = random.nextInt(400); i > 0; i--) {
        byte[] key = ("key-" + random.nextInt(variety)).repeat(1 + random.nextInt(3)).getBytes();
        if (random.nextInt(10) < (shrink ? 9 : 2)) {
          byte[] near = shrink && model.ceilingKey(key) != null ? model.ceilingKey(key) : key;
          check(bag.remove(near) == (model.remove(near) != null), () -> "removed what was not there");
        } else {
          long count = random.nextInt(1000) - 500;
          Bag.Entry entry = bag.obtain(key);
          check(entry.count == (model.containsKey(key) ? model.get(key)[0] : 0), () -> "another count");
          entry.count = count;
          entry.mark = count + 1;
          entry.value = anyBytes(random, 60);
          model.put(key, new long[] {count, Arrays.hashCode(entry.value)});
        }
      }
      ByteWriter writer = new ByteWriter(16);
      bag.write(writer);
      bag = new Bag(2, pagesIn(store));
      bag.read(new ByteReader().over(writer.toBytes()));
      check(bag.size() == model.size() && bag.isEmpty() == model.isEmpty(), () -> "another size");
      byte[] from = ("key-" + random.nextInt(variety)).getBytes();
      Iterator<Map.Entry<byte[], long[]>> wanted = model.tailMap(from).entrySet().iterator();
      for (Bag.Cursor found = bag.from(from); found.hasNext(); ) {
        Bag.Entry entry = found.next();
        Map.Entry<byte[], long[]> expected = wanted.next();
        check(
            Arrays.equals(entry.key, expected.getKey())
                && entry.count == expected.getValue()[0]
                && entry.mark == entry.count + 1
                && Arrays.hashCode(entry.value) == expected.getValue()[1],
            () -> "another entry");
      }
      check(!wanted.hasNext(), () -> "entries are missing");
      check(
          model.isEmpty() ? bag.last() == null : Arrays.equals(bag.last().key, model.lastKey()),
          () -> "another last entry");
    }
    bag.drop();
    check(store.isEmpty() && bag.isEmpty(), () -> "pages are left: " + store.keySet());
  }

  private static void roundTrip(Random random, List<AggregateSpec.Call> calls, boolean retracting) {
    Side side = new Side(calls, retracting);
    Side restored = new Side(calls, retracting);
    List<UnsafeRow> there = retracting ? new ArrayList<>() : null;
    int variety = random.nextBoolean() ? 5 : 200;
    for (int batch = 0; batch < 4; batch++) {
      List<Signed> rows = anyChanges(random, 300, variety, there);
      side.take(rows);
      restored.take(rows);
      byte[] state = restored.state();
      check(Arrays.equals(side.state(), state), () -> "state differs after a restart");
      // Read into a group that held something else: every slot must be set.
      Map<Long, byte[]> store = new HashMap<>(restored.store);
      restored.take(anyRows(random, 20, 200));
      restored.store.clear();
      restored.store.putAll(store);
      restored.restore(state);
      check(Arrays.equals(restored.state(), state), () -> "state changed on its way");
      check(Arrays.equals(restored.result(), side.result()), () -> "result changed on its way");
    }
  }

  private static void cuts(Random random) {
    cuts(random, CALLS, null);
    cuts(random, ORDERED_CALLS, null);
    cuts(random, COLLECTING_CALLS, null);
    cuts(random, RETRACTING_CALLS, new ArrayList<>());
  }

  private static void cuts(Random random, List<AggregateSpec.Call> calls, List<UnsafeRow> there) {
    Side whole = new Side(calls, there != null);
    Side cut = new Side(calls, there != null);
    for (int batch = 0; batch < 2; batch++) {
      List<Signed> rows = anyChanges(random, 400, random.nextBoolean() ? 5 : 300, there);
      // What is taken out may come before what puts it in.
      List<Signed> moved = new ArrayList<>(rows);
      for (int i = 0; there != null && i < rows.size() / 4; i++) {
        moved.add(random.nextInt(moved.size()), moved.remove(random.nextInt(moved.size())));
      }
      whole.merge(moved);
      for (int from = 0; from < moved.size(); ) {
        int to = Math.min(moved.size(), from + 1 + random.nextInt(50));
        cut.merge(moved.subList(from, to));
        from = to;
      }
      check(whole.settle() == 0 && cut.settle() == 0, () -> "a row that was there was not known");
      check(Arrays.equals(whole.result(), cut.result()), () -> "cuts can be seen in the result");
      if (there != null) {
        check(Arrays.equals(whole.state(), cut.state()), () -> "cuts can be seen in state");
      }
    }
  }

  private static void comeAndGo(Random random) {
    Side side = new Side(RETRACTING_CALLS, true);
    List<UnsafeRow> there = new ArrayList<>();
    side.take(anyChanges(random, 600, random.nextBoolean() ? 5 : 200, there));
    side.restore(side.state());
    while (!there.isEmpty()) {
      List<Signed> rows = new ArrayList<>();
      for (int i = 1 + random.nextInt(200); i > 0 && !there.isEmpty(); i--) {
        rows.add(new Signed(there.remove(random.nextInt(there.size())), -1));
      }
      side.merge(rows);
      check(side.settle() == 0, () -> "a row that was there was not known");
      side.restore(side.state());
    }
    check(side.accumulators.rows(side.group) == 0, () -> "rows are left");
    Side fresh = new Side(RETRACTING_CALLS, true);
    check(
        side.state().length < 2 * fresh.state().length + 200,
        () -> "state of no rows has " + side.state().length + " bytes");
    side.accumulators.all.forEach(accumulator -> accumulator.drop(side.group));
    check(side.store.isEmpty(), () -> "pages are left: " + side.store.keySet());
  }

  private static void distinct(Random random) {
    Side side =
        new Side(List.of(call("COUNT", "s", true, null, "bigint"), call("SUM", "i", true, null, "bigint")), false);
    Set<String> texts = new HashSet<>();
    Set<Integer> numbers = new HashSet<>();
    int variety = random.nextBoolean() ? 60 : 20_000;
    for (int batch = 0; batch < 6; batch++) {
      List<Signed> rows = anyRows(random, random.nextBoolean() ? 40 : 3000, variety);
      for (Signed signed : rows) {
        UnsafeRow row = signed.row();
        if (!row.isNullAt(6)) {
          texts.add(row.getUTF8String(6).toString());
        }
        if (!row.isNullAt(0)) {
          numbers.add(row.getInt(0));
        }
      }
      side.take(rows);
      side.restore(side.state());
    }
    UnsafeRow result = new UnsafeRow(side.outputs);
    byte[] bytes = side.result();
    result.pointTo(bytes, bytes.length);
    check(result.getLong(0) == texts.size(), () -> result.getLong(0) + " texts, not " + texts.size());
    long sum = numbers.stream().mapToLong(Integer::longValue).sum();
    check(numbers.isEmpty() ? result.isNullAt(1) : result.getLong(1) == sum, () -> "sum of distinct numbers");
    check(side.state().length < 4096, () -> "a large set lies in the group's state: " + side.state().length);
    for (byte[] bucket : side.store.values()) {
      check(bucket.length < 64 * DistinctValues.BUCKET_SIZE * 8, () -> "a bucket of " + bucket.length + " bytes");
    }
  }

  /** State that was once written must be readable for ever: these bytes may not change without a new version. */
  private static void golden() {
    UnsafeProjection projection = UnsafeProjection.create(ARGUMENTS);
    List<Signed> rows = new ArrayList<>();
    for (int i = 0; i < 3; i++) {
      Decimal narrow = Decimal.apply(BigDecimal.valueOf(1050L * i - 700, 2), 12, 2);
      Decimal wide = Decimal.apply(new BigDecimal("123456789012345678901234.5").multiply(BigDecimal.valueOf(i)), 36, 6);
      UnsafeRow row =
          row(
              projection,
              i - 1,
              1L << (20 * i),
              i + 0.5f,
              -i / 3.0,
              narrow,
              wide,
              UTF8String.fromString("user-" + i % 2),
              new byte[] {(byte) i},
              1_700_000_000_000_000L + i,
              new GenericArrayData(new Object[] {i % 2, null}),
              i == 0 ? null : new GenericInternalRow(new Object[] {7, UTF8String.fromString("y")}),
              i == 1 ? null : true);
      rows.add(new Signed(row, 1));
    }
    Side side = new Side(CALLS, false);
    side.take(rows.subList(0, 2));
    side.take(rows.subList(2, 3));
    Side ordered = new Side(ORDERED_CALLS, false);
    ordered.take(rows);
    String found = HexFormat.of().formatHex(side.state()) + "/" + HexFormat.of().formatHex(ordered.state());
    check(found.equals(GOLDEN), () -> "state is written differently:\n" + found);
    Side collecting = new Side(COLLECTING_CALLS, false);
    collecting.take(rows);
    Side retracting = new Side(RETRACTING_CALLS, true);
    retracting.take(rows);
    retracting.take(List.of(new Signed(rows.get(0).row(), -1)));
    String more = HexFormat.of().formatHex(collecting.state()) + "/" + HexFormat.of().formatHex(retracting.state());
    check(more.equals(GOLDEN_COLLECTIONS), () -> "state is written differently:\n" + more);
  }

  private static final String GOLDEN =
      "0604060004828080808040068280808180400600b4100600b410060d04acbb2fe44a5ba2caeaba04e0010100010001067573"
          + "65722d30010102018080f2818389850602000e06757365722d3006757365722d310402000401010102040300060101010001"
          + "0206000600020032180200000000000000020000000000000000000000000000001802000000000000000200000000000000"
          + "0100000000000000040100212000000000000000000700000000000000010000001800000079000000000000000203001e01"
          + "000d018ee90ff6c373e0ee4e3e01a00d031dd21fed86e7c1dc9c7c0340060d04acbb2fe44a5ba2caeaba04e0/06000000000"
          + "000124006000000000000124004555555555555e5bf";

  private static final String GOLDEN_COLLECTIONS =
      "0106757365722d300110800000031dd21fed86e7c1dc9c7c034001087fffffffffffffff0120000000000000000007000000"
          + "00000000010000001800000079000000000000000318080000000000000000020006757365722d3008000000000000000102"
          + "0006757365722d31080000000000000002020006757365722d300806757365722d3004000001080800000000000000000200"
          + "06757365722d3003180800000000000000000200087fffffffffffffff080000000000000001020008800000000000000008"
          + "00000000000000020200088000000000000001180901401aaaaaaaaaaaaa0200000901402aaaaaaaaaaaaa02000009018000"
          + "00000000000002000003180800000000000000000200088000000000000000080000000000000001020008402aaaaaaaaaaa"
          + "aa080000000000000002020008401aaaaaaaaaaaaa0318080000000000000000020018020000000000000002000000000000"
          + "0000000000000000000800000000000000010200180200000000000000020000000000000001000000000000000800000000"
          + "0000000202001802000000000000000200000000000000000000000000000018108000000000000000000000000000000002"
          + "000010800000018ee90ff6c373e0ee4e3e01a002000010800000031dd21fed86e7c1dc9c7c03400200001008bfe000000000"
          + "000002000008c0040000000000000200001808401aaaaaaaaaaaaa02000008402aaaaaaaaaaaaa0200000880000000000000"
          + "000200000318080000000000000000020006757365722d30080000000000000001020006757365722d310800000000000000"
          + "02020006757365722d30/040402040202808080808040048080808180400400ac1b0400ac1b040d04acbb2fe44a5ba2caeab"
          + "a04e01010800000018ee90ff6c373e0ee4e3e01a002000010800000031dd21fed86e7c1dc9c7c0340020000040d04acbb2fe"
          + "44a5ba2caeaba04e01008401aaaaaaaaaaaaa02000008402aaaaaaaaaaaaa0200001006757365722d3002000006757365722"
          + "d3102000004080102020000100880060a24181e40010200000880060a24181e4002020000080880000000000000010200000"
          + "2100880000000000000000200000880000000000000010200000402040210180200000000000000020000000000000000000"
          + "0000000000002000018020000000000000002000000000000000100000000000000020000040820000000000000000007000"
          + "0000000000001000000180000007900000000000000040000020400000000000010400400000000000010400255555555555"
          + "5e5bf0310080000000000000001020006757365722d31080000000000000002020006757365722d301012000000077573657"
          + "22d3000000000000000020200001200000007757365722d31000000000000000102000002080800000000000000010200108"
          + "00000031dd21fed86e7c1dc9c7c0340081c00000011800000031dd21fed86e7c1dc9c7c03400000000000000001020000031"
          + "0080000000000000001020008800000000000000008000000000000000202000880000000000000011014000000098000000"
          + "0000000000000000000000001020000140000000980000000000000010000000000000002020000021008000000000000000"
          + "0020020000000000000000007000000000000000100000018000000790000000000000008000000000000000102002000000"
          + "00000000000070000000000000001000000180000007900000000000000102c0000002100000000000000000700000000000"
          + "0000100000018000000790000000000000000000000000000000200002c00000021000000000000000007000000000000000"
          + "100000018000000790000000000000000000000000000010200000806757365722d300200000108080000000000000000020"
          + "006757365722d30081200000007757365722d300000000000000000020000031008000000000000000102000880000000000"
          + "0000008000000000000000202000880000000000000011014000000098000000000000000000000000000000102000014000"
          + "0000980000000000000010000000000000002020000100901401aaaaaaaaaaaaa0200000901402aaaaaaaaaaaaa020000031"
          + "0080000000000000001020008402aaaaaaaaaaaaa080000000000000002020008401aaaaaaaaaaaaa101400000009401aaaa"
          + "aaaaaaaaa00000000000000020200001400000009402aaaaaaaaaaaaa0000000000000001020000031008000000000000000"
          + "1020018020000000000000002000000000000000100000000000000080000000000000002020018020000000000000002000"
          + "0000000000000000000000000001024000000190200000000000000020000000000000000000000000000000000000000000"
          + "002020000240000001902000000000000000200000000000000010000000000000000000000000000010200000808c004000"
          + "0000000000200001008401aaaaaaaaaaaaa02000008402aaaaaaaaaaaaa02000003100800000000000000010200067573657"
          + "22d31080000000000000002020006757365722d30101200000007757365722d3000000000000000020200001200000007757"
          + "365722d310000000000000001020000";
}
