package io.tidemill.state;

import java.util.Arrays;
import java.util.Iterator;
import java.util.function.Consumer;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/**
 * The group aggregate: columns → packed (key, arguments) → {@link Combiner} → packed (key, delta) → shuffle by key →
 * state → packed (key, result) → columns.
 */
final class GroupAggregate extends KeyedProcessor {
  private final AggregateSpec spec;
  private final StructType arguments;
  private final boolean paged;
  private final Counts counts;

  private transient Aggregation aggregation;

  private GroupAggregate(AggregateSpec spec, StructType arguments, Accumulators accumulators, Counts counts) {
    super(spec.name(), spec.updateBefore(), accumulators.isOrdered());
    this.spec = spec;
    this.arguments = arguments;
    this.paged = !accumulators.paged.isEmpty();
    this.counts = counts;
  }

  static Dataset<Row> plan(Dataset<Row> input, AggregateSpec spec, Counts counts) {
    StructType schema = input.schema();
    StructType keys = Packing.columns(schema, spec.keys(), spec.name());
    StructType arguments = Aggregation.arguments(spec, schema);
    Accumulators accumulators = Aggregation.accumulators(spec, arguments);
    Dataset<Tuple2<byte[], byte[]>> deltas =
        Packing.pack(input, keys, arguments).mapPartitions(combine(spec, arguments), Packing.PAIRS);
    KeyedProcessor operator =
        new GroupAggregate(spec, arguments, accumulators, counts)
            .expiring(Expiry.after(spec.ttl()))
            .timed(spec.clock());
    return Packing.unpack(operator.over(deltas), keys, results(spec));
  }

  private static MapPartitionsFunction<Tuple2<byte[], byte[]>, Tuple2<byte[], byte[]>> combine(
      AggregateSpec spec, StructType arguments) {
    return rows -> new Combiner(spec, arguments, rows, TaskContext.getPartitionId(), false);
  }

  private static StructType results(AggregateSpec spec) {
    return DataTypes.createStructType(Aggregation.results(spec));
  }

  @Override
  boolean isPaged() {
    return paged;
  }

  @Override
  void open(Pages pages) {
    aggregation = new Aggregation(spec, arguments, counts, pages, 0);
  }

  @Override
  boolean process(byte[] key, ByteReader before, Iterator<byte[]> deltas, ByteWriter after, Changes changes) {
    byte[] old = null;
    if (before == null) {
      aggregation.clear();
    } else {
      aggregation.read(before);
      old = aggregation.result();
    }
    if (!aggregation.merge(deltas, 0, before == null)) {
      if (old != null) {
        changes.delete(key, old);
      }
      return false;
    }
    aggregation.write(after);
    byte[] now = aggregation.result();
    aggregation.countOverflows();
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
    aggregation.read(state);
    rows.accept(aggregation.result());
  }
}
