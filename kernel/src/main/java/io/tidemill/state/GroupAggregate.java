package io.tidemill.state;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/**
 * The group aggregate: columns → packed (key, arguments) → {@link Combiner} → packed (key, delta) → shuffle by key →
 * state → packed (key, result) → columns.
 *
 * <p>Over input that retracts, rows are counted too: a group is there as long as it has rows. Rows that are taken out of
 * a group that is not there are no rows of anybody.
 */
final class GroupAggregate extends KeyedProcessor {
  private final AggregateSpec spec;
  private final StructType arguments;
  private final Counts counts;

  private transient Accumulators accumulators;
  private transient Group group;
  private transient ByteReader delta;
  private transient UnsafeRowWriter result;

  private GroupAggregate(AggregateSpec spec, StructType arguments, Accumulators accumulators, Counts counts) {
    super(spec.name(), spec.updateBefore(), accumulators.isOrdered());
    this.spec = spec;
    this.arguments = arguments;
    this.counts = counts;
  }

  static Dataset<Row> plan(Dataset<Row> input, AggregateSpec spec, Counts counts) {
    StructType schema = input.schema();
    StructType keys = Packing.columns(schema, spec.keys(), spec.name());
    StructType arguments = Packing.columns(schema, argumentNames(spec), spec.name());
    for (AggregateSpec.Call call : spec.aggregates()) {
      if (call.filter() != null && !(arguments.apply(call.filter()).dataType() instanceof BooleanType)) {
        throw new IllegalArgumentException(spec.name() + ": " + call + ": the filter is not BOOLEAN");
      }
    }
    Accumulators accumulators;
    try {
      accumulators = new Accumulators(spec, arguments);
    } catch (IllegalArgumentException e) {
      throw new IllegalArgumentException(spec.name() + ": " + e.getMessage(), e);
    }
    Dataset<Tuple2<byte[], byte[]>> deltas =
        Packing.pack(input, keys, arguments).mapPartitions(combine(spec, arguments), Packing.PAIRS);
    KeyedProcessor operator =
        new GroupAggregate(spec, arguments, accumulators, counts).expiring(Expiry.after(spec.ttl()));
    return Packing.unpack(operator.over(deltas), keys, results(spec));
  }

  private static MapPartitionsFunction<Tuple2<byte[], byte[]>, Tuple2<byte[], byte[]>> combine(
      AggregateSpec spec, StructType arguments) {
    return rows -> new Combiner(spec, arguments, rows, TaskContext.getPartitionId());
  }

  private static Set<String> argumentNames(AggregateSpec spec) {
    Set<String> names = new LinkedHashSet<>();
    for (AggregateSpec.Call call : spec.aggregates()) {
      names.addAll(call.arguments());
      if (call.filter() != null) {
        names.add(call.filter());
      }
    }
    return names;
  }

  private static StructType results(AggregateSpec spec) {
    List<StructField> fields = new ArrayList<>();
    for (AggregateSpec.Call call : spec.aggregates()) {
      boolean nullable = !call.function().equals("COUNT");
      fields.add(DataTypes.createStructField(call.output(), DataType.fromDDL(call.type()), nullable));
    }
    return DataTypes.createStructType(fields);
  }

  @Override
  boolean isPaged() {
    return !new Accumulators(spec, arguments).paged.isEmpty();
  }

  @Override
  void open(Pages pages) {
    accumulators = new Accumulators(spec, arguments);
    accumulators.paged.forEach(each -> each.keepIn(pages));
    group = accumulators.newGroups(1);
    delta = new ByteReader();
    result = new UnsafeRowWriter(spec.aggregates().size(), 64);
  }

  @Override
  boolean process(byte[] key, ByteReader before, Iterator<byte[]> deltas, ByteWriter after, Changes changes) {
    byte[] old = null;
    if (before == null) {
      group.clear(1);
    } else {
      for (Accumulator accumulator : accumulators.all) {
        accumulator.read(group, before);
      }
      old = result();
    }
    accumulators.overflows.count = 0;
    merge(deltas, before == null && spec.retracting());
    if (accumulators.settling && !isThere()) {
      if (old != null) {
        changes.delete(key, old);
      }
      return false;
    }
    for (Accumulator accumulator : accumulators.all) {
      accumulator.write(group, after);
    }
    byte[] now = result();
    if (accumulators.overflows.count > 0) {
      counts.add(Counts.OVERFLOW, accumulators.overflows.count);
    }
    if (old == null) {
      changes.insert(key, now);
    } else if (expires() || !Arrays.equals(old, now)) {
      changes.update(key, old, now);
    }
    return true;
  }

  @Override
  StructType kept() {
    return results(spec);
  }

  @Override
  void show(ByteReader state, Consumer<byte[]> rows) {
    for (Accumulator accumulator : accumulators.all) {
      accumulator.read(group, state);
    }
    rows.accept(result());
  }

  /** {@code fresh}: the group is not known. What is taken out of it before anything is put in is not, either. */
  private void merge(Iterator<byte[]> deltas, boolean fresh) {
    long unknown = 0;
    while (deltas.hasNext()) {
      byte[] bytes = deltas.next();
      long header = PackedRow.header(bytes);
      delta.over(bytes, PackedRow.HEADER, bytes.length - PackedRow.HEADER);
      if (!Header.adds(header)) {
        boolean goesOn = Header.kind(header) == Header.UPDATE_BEFORE;
        int end = goesOn ? delta.readLength() + delta.position() : bytes.length;
        if (fresh) {
          unknown -= Accumulators.rows(delta);
        } else {
          merge();
        }
        delta.over(bytes, end, bytes.length - end);
      }
      if (delta.hasMore()) {
        fresh = false;
        merge();
      }
    }
    if (unknown > 0) {
      counts.add(Counts.UNKNOWN_DELETE, unknown);
    }
  }

  private void merge() {
    for (Accumulator accumulator : accumulators.all) {
      accumulator.merge(group, delta);
    }
  }

  /** Whether the group has rows, when the batch is through; if not, it is dropped. */
  private boolean isThere() {
    long rows = spec.retracting() ? accumulators.rows(group) : 1;
    long unknown = Math.max(0, -rows);
    for (Accumulator accumulator : accumulators.all) {
      if (rows > 0) {
        unknown = Math.max(unknown, accumulator.settle(group));
      } else {
        accumulator.drop(group);
      }
    }
    if (unknown > 0) {
      counts.add(Counts.UNKNOWN_DELETE, unknown);
    }
    return rows > 0;
  }

  private byte[] result() {
    result.reset();
    result.zeroOutNullBytes();
    for (Accumulator accumulator : accumulators.all) {
      accumulator.result(group, result);
    }
    return PackedRow.packRow(result.getRow(), 0);
  }
}
