package io.tidemill.state;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * The calls of an aggregate over the group at hand: read from state, merged with deltas, written, and what comes of it.
 *
 * <p>Over input that retracts, rows are counted too: a group is there as long as it has rows. Rows that are taken out of
 * a group that is not there are no rows of anybody.
 */
final class Aggregation {
  private final AggregateSpec spec;
  private final Counts counts;
  private final Accumulators accumulators;
  private final Group group;
  private final ByteReader delta = new ByteReader();
  private final ByteWriter scratch = new ByteWriter(256);
  private final UnsafeRowWriter result;
  private final int before;

  /** {@code before}: how many columns the result has before those of the calls. */
  Aggregation(AggregateSpec spec, StructType arguments, Counts counts, Pages pages, int before) {
    this.spec = spec;
    this.counts = counts;
    this.before = before;
    accumulators = new Accumulators(spec, arguments, before);
    accumulators.paged.forEach(each -> each.keepIn(pages));
    group = accumulators.newGroups(1);
    result = new UnsafeRowWriter(before + spec.aggregates().size(), 64);
  }

  /** The columns that calls read. */
  static StructType arguments(AggregateSpec spec, StructType schema) {
    Set<String> names = new LinkedHashSet<>();
    for (AggregateSpec.Call call : spec.aggregates()) {
      names.addAll(call.arguments());
      if (call.filter() != null) {
        names.add(call.filter());
      }
    }
    StructType arguments = Packing.columns(schema, names, spec.name());
    for (AggregateSpec.Call call : spec.aggregates()) {
      if (call.filter() != null && !(arguments.apply(call.filter()).dataType() instanceof BooleanType)) {
        throw new IllegalArgumentException(spec.name() + ": " + call + ": the filter is not BOOLEAN");
      }
    }
    return arguments;
  }

  /** The accumulators that calls need, or who of them is refused. */
  static Accumulators accumulators(AggregateSpec spec, StructType arguments) {
    try {
      return new Accumulators(spec, arguments, 0);
    } catch (IllegalArgumentException e) {
      throw new IllegalArgumentException(spec.name() + ": " + e.getMessage(), e);
    }
  }

  /** The columns that calls give. */
  static List<StructField> results(AggregateSpec spec) {
    List<StructField> fields = new ArrayList<>();
    for (AggregateSpec.Call call : spec.aggregates()) {
      boolean nullable = !call.function().equals("COUNT");
      fields.add(DataTypes.createStructField(call.output(), DataType.fromDDL(call.type()), nullable));
    }
    return fields;
  }

  void clear() {
    group.clear(1);
  }

  void read(ByteReader in) {
    for (Accumulator accumulator : accumulators.all) {
      accumulator.read(group, in);
    }
  }

  void write(ByteWriter out) {
    for (Accumulator accumulator : accumulators.all) {
      accumulator.write(group, out);
    }
  }

  private void writeDelta(ByteWriter out) {
    for (Accumulator accumulator : accumulators.all) {
      accumulator.writeDelta(group, out);
    }
  }

  /**
   * Merges the deltas of a batch, each behind a header and {@code skipped} more bytes.
   *
   * @param fresh the group is not known. What is taken out of it before anything is put in is not, either
   * @return whether the group has rows; if not, it is dropped
   */
  boolean merge(Iterator<byte[]> deltas, int skipped, boolean fresh) {
    accumulators.overflows.count = 0;
    mergeAll(deltas, PackedRow.HEADER + skipped, fresh && spec.retracting());
    return !accumulators.settling || isThere();
  }

  private void mergeAll(Iterator<byte[]> deltas, int from, boolean fresh) {
    long unknown = 0;
    while (deltas.hasNext()) {
      byte[] bytes = deltas.next();
      long header = PackedRow.header(bytes);
      delta.over(bytes, from, bytes.length - from);
      if (!Header.adds(header)) {
        boolean goesOn = Header.kind(header) == Header.UPDATE_BEFORE;
        int end = goesOn ? delta.readLength() + delta.position() : bytes.length;
        if (fresh) {
          unknown -= Accumulators.rows(delta);
        } else {
          merge(delta);
        }
        delta.over(bytes, end, bytes.length - end);
      }
      if (delta.hasMore()) {
        fresh = false;
        merge(delta);
      }
    }
    if (unknown > 0) {
      counts.add(Counts.UNKNOWN_DELETE, unknown);
    }
  }

  /** Merges another group; none of its accumulators may need pages. */
  void merge(Aggregation other) {
    scratch.reset();
    other.writeDelta(scratch);
    merge(delta.over(scratch.buffer(), 0, scratch.size()));
  }

  /** Merges one delta. */
  void merge(ByteReader from) {
    for (Accumulator accumulator : accumulators.all) {
      accumulator.merge(group, from);
    }
  }

  /** Begins to take rows one by one. */
  void begin() {
    accumulators.overflows.count = 0;
  }

  /** Takes one row in (1) or out (-1). */
  void add(SpecializedGetters row, int sign) {
    for (Accumulator accumulator : accumulators.all) {
      accumulator.add(group, row, sign);
    }
  }

  /** Ends a row that was added, so that there is a result. */
  void settle() {
    if (accumulators.settling) {
      for (Accumulator accumulator : accumulators.all) {
        accumulator.settle(group);
      }
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

  /** Drops what the group keeps in pages. */
  void drop() {
    for (Accumulator accumulator : accumulators.all) {
      accumulator.drop(group);
    }
  }

  /** Counts the sums that did not fit since {@link #merge}, or since the last call. */
  void countOverflows() {
    if (accumulators.overflows.count > 0) {
      counts.add(Counts.OVERFLOW, accumulators.overflows.count);
      accumulators.overflows.count = 0;
    }
  }

  /** A packed row: {@code first}, then what the calls give. */
  byte[] result(long... first) {
    result.reset();
    result.zeroOutNullBytes();
    for (int i = 0; i < before; i++) {
      result.write(i, first[i]);
    }
    for (Accumulator accumulator : accumulators.all) {
      accumulator.result(group, result);
    }
    return PackedRow.packRow(result.getRow(), 0);
  }
}
