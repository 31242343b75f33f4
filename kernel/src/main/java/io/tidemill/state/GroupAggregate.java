package io.tidemill.state;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import scala.Option;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The group aggregate: columns → packed (key, arguments) → {@link Combiner} → packed (key, delta) → shuffle by key →
 * state → packed (key, result) → columns.
 *
 * <p>Law: what leaves for a key is a function of the rows that came for it, not of how map tasks and shuffles cut and
 * ordered them, so that a replayed batch gives the same rows in the same order.
 */
final class GroupAggregate
    extends StatefulProcessor<byte[], Tuple2<byte[], byte[]>, Tuple2<byte[], byte[]>> {
  static final String KIND = "_kind";
  private static final int STATE_VERSION = 1;
  private static final byte INSERT = 0;
  private static final byte UPDATE_BEFORE = 1;
  private static final byte UPDATE_AFTER = 2;
  private static final Encoder<Tuple2<byte[], byte[]>> PAIRS = Encoders.tuple(Encoders.BINARY(), Encoders.BINARY());

  private final AggregateSpec spec;
  private final StructType arguments;

  private transient Accumulators accumulators;
  private transient ValueState<byte[]> state;
  private transient Group group;
  private transient ByteReader reader;
  private transient ByteWriter writer;
  private transient UnsafeRowWriter result;

  private GroupAggregate(AggregateSpec spec, StructType arguments) {
    this.spec = spec;
    this.arguments = arguments;
  }

  static Dataset<Row> plan(Dataset<Row> input, AggregateSpec spec) {
    StructType schema = input.schema();
    StructType keys = columns(schema, spec.keys(), spec);
    StructType arguments = columns(schema, argumentNames(spec), spec);
    for (AggregateSpec.Call call : spec.aggregates()) {
      if (call.filter() != null && !(arguments.apply(call.filter()).dataType() instanceof BooleanType)) {
        throw new IllegalArgumentException(spec.name() + ": " + call + ": the filter is not BOOLEAN");
      }
    }
    try {
      new Accumulators(spec, arguments);
    } catch (IllegalArgumentException e) {
      throw new IllegalArgumentException(spec.name() + ": " + e.getMessage(), e);
    }
    return unpack(
        pack(input, keys, arguments)
            .mapPartitions(combine(spec, arguments), PAIRS)
            .groupBy("_1")
            .as(Encoders.BINARY(), PAIRS)
            .transformWithState(
                new GroupAggregate(spec, arguments), TimeMode.None(), OutputMode.Append(), PAIRS, PAIRS),
        keys,
        results(spec));
  }

  private static MapPartitionsFunction<Tuple2<byte[], byte[]>, Tuple2<byte[], byte[]>> combine(
      AggregateSpec spec, StructType arguments) {
    return rows -> new Combiner(spec, arguments, rows, TaskContext.getPartitionId());
  }

  private static Dataset<Tuple2<byte[], byte[]>> pack(Dataset<Row> input, StructType keys, StructType arguments) {
    return input.select(packed(input, keys, true).as("_1"), packed(input, arguments, false).as("_2")).as(PAIRS);
  }

  private static Column packed(Dataset<Row> input, StructType columns, boolean hashed) {
    Expression[] expressions =
        Arrays.stream(columns.fieldNames())
            .map(name -> ExpressionUtils.expression(input.col(quoted(name))))
            .toArray(Expression[]::new);
    return ExpressionUtils.column(new PackedRow(PackedRow.seq(expressions), hashed));
  }

  private static Dataset<Row> unpack(Dataset<Tuple2<byte[], byte[]>> pairs, StructType keys, StructType results) {
    List<Column> columns = new ArrayList<>();
    addFields(columns, pairs.col("_1"), keys);
    addFields(columns, pairs.col("_2"), results);
    return pairs.select(columns.toArray(Column[]::new));
  }

  private static void addFields(List<Column> columns, Column bytes, StructType schema) {
    Expression struct = PackedRow.unpacked(ExpressionUtils.expression(bytes), schema);
    for (int i = 0; i < schema.size(); i++) {
      String name = schema.apply(i).name();
      columns.add(ExpressionUtils.column(new GetStructField(struct, i, Option.apply(name))).as(name));
    }
  }

  private static String quoted(String name) {
    return "`" + name.replace("`", "``") + "`";
  }

  private static Set<String> argumentNames(AggregateSpec spec) {
    Set<String> names = new LinkedHashSet<>();
    for (AggregateSpec.Call call : spec.aggregates()) {
      if (call.argument() != null) {
        names.add(call.argument());
      }
      if (call.filter() != null) {
        names.add(call.filter());
      }
    }
    return names;
  }

  private static StructType columns(StructType schema, Iterable<String> names, AggregateSpec spec) {
    List<StructField> fields = new ArrayList<>();
    for (String name : names) {
      if (!Arrays.asList(schema.fieldNames()).contains(name)) {
        throw new IllegalArgumentException(
            spec.name() + ": the input has no column '" + name + "', only " + Arrays.asList(schema.fieldNames()));
      }
      StructField field = schema.apply(name);
      fields.add(DataTypes.createStructField(name, field.dataType(), field.nullable()));
    }
    return DataTypes.createStructType(fields);
  }

  private static StructType results(AggregateSpec spec) {
    List<StructField> fields = new ArrayList<>();
    for (AggregateSpec.Call call : spec.aggregates()) {
      boolean nullable = !call.function().equals("COUNT");
      fields.add(DataTypes.createStructField(call.output(), DataType.fromDDL(call.type()), nullable));
    }
    fields.add(DataTypes.createStructField(KIND, DataTypes.ByteType, false));
    return DataTypes.createStructType(fields);
  }

  @Override
  public void init(OutputMode outputMode, TimeMode timeMode) {
    accumulators = new Accumulators(spec, arguments);
    state = getHandle().getValueState("group", Encoders.BINARY(), TTLConfig.NONE());
    if (!accumulators.distinct.isEmpty()) {
      MapState<Long, byte[]> buckets =
          getHandle().getMapState("distinct", Encoders.LONG(), Encoders.BINARY(), TTLConfig.NONE());
      DistinctValues.Buckets store =
          new DistinctValues.Buckets() {
            @Override
            public byte[] get(long bucket) {
              return buckets.getValue(bucket);
            }

            @Override
            public void put(long bucket, byte[] content) {
              buckets.updateValue(bucket, content);
            }
          };
      accumulators.distinct.forEach(set -> set.keepIn(store));
    }
    group = accumulators.newGroups(1);
    reader = new ByteReader();
    writer = new ByteWriter(256);
    result = new UnsafeRowWriter(spec.aggregates().size() + 1, 64);
  }

  @Override
  public Iterator<Tuple2<byte[], byte[]>> handleInputRows(
      byte[] key, Iterator<Tuple2<byte[], byte[]>> deltas, TimerValues timers) {
    byte[] before = state.get();
    byte[] old = null;
    if (before == null) {
      group.clear(1);
    } else {
      read(before);
      old = result();
    }
    merge(deltas);
    write(before);
    byte[] now = result();
    List<Tuple2<byte[], byte[]>> changes;
    if (old == null) {
      changes = List.of(change(key, now, INSERT));
    } else if (Arrays.equals(old, now)) {
      changes = List.of();
    } else if (spec.updateBefore()) {
      changes = List.of(change(key, old, UPDATE_BEFORE), change(key, now, UPDATE_AFTER));
    } else {
      changes = List.of(change(key, now, UPDATE_AFTER));
    }
    return CollectionConverters.asScala(changes.iterator());
  }

  private void read(byte[] bytes) {
    reader.over(bytes);
    int version = reader.readByte();
    if (version != STATE_VERSION) {
      throw new IllegalStateException(
          spec.name() + ": state version " + version + " was written by another release of Tidemill");
    }
    for (Accumulator accumulator : accumulators.all) {
      accumulator.read(group, reader);
    }
  }

  private void write(byte[] before) {
    writer.reset();
    writer.writeByte(STATE_VERSION);
    for (Accumulator accumulator : accumulators.all) {
      accumulator.write(group, writer);
    }
    byte[] after = writer.toBytes();
    if (!Arrays.equals(before, after)) {
      state.update(after);
    }
  }

  private void merge(Iterator<Tuple2<byte[], byte[]>> deltas) {
    if (!accumulators.ordered) {
      while (deltas.hasNext()) {
        merge(reader.over(deltas.next()._2()));
      }
      return;
    }
    record Tagged(long task, long number, byte[] delta, int from) {}
    List<Tagged> tagged = new ArrayList<>();
    while (deltas.hasNext()) {
      byte[] delta = deltas.next()._2();
      reader.over(delta);
      tagged.add(new Tagged(reader.readVarint(), reader.readVarint(), delta, reader.position()));
    }
    tagged.sort(Comparator.comparingLong(Tagged::task).thenComparingLong(Tagged::number));
    for (Tagged next : tagged) {
      merge(reader.over(next.delta(), next.from(), next.delta().length - next.from()));
    }
  }

  private void merge(ByteReader delta) {
    for (Accumulator accumulator : accumulators.all) {
      accumulator.merge(group, delta);
    }
  }

  /** The result row, packed, as an insert. */
  private byte[] result() {
    result.reset();
    result.zeroOutNullBytes();
    for (Accumulator accumulator : accumulators.all) {
      accumulator.result(group, result);
    }
    result.write(spec.aggregates().size(), INSERT);
    return PackedRow.pack(result.getRow(), false);
  }

  private Tuple2<byte[], byte[]> change(byte[] key, byte[] row, byte kind) {
    if (kind != INSERT) {
      Platform.putByte(row, Platform.BYTE_ARRAY_OFFSET + PackedRow.HEADER + kindOffset(), kind);
    }
    return new Tuple2<>(key, row);
  }

  private int kindOffset() {
    int fields = spec.aggregates().size() + 1;
    return UnsafeRow.calculateBitSetWidthInBytes(fields) + 8 * (fields - 1);
  }
}
