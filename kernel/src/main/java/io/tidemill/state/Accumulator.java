package io.tidemill.state;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;

/**
 * One aggregate call. A row takes two hops: a map task <em>collects</em> rows into a group and writes the group's
 * <em>delta</em>; the task that owns the key <em>merges</em> the deltas into the group it has read from state.
 * Law: the deltas of a batch, however the rows were cut into them, lead to the same state.
 *
 * <p>Retraction joins here: a {@code retract} beside {@code add}, and deltas that carry signed counts.
 */
interface Accumulator {
  /** Takes one row into the group as state knows it. */
  void add(Group group, SpecializedGetters row);

  /** Takes one row into the group of a map task; returns how many bytes of heap that cost beyond the fixed slots. */
  default int collect(Group group, SpecializedGetters row) {
    add(group, row);
    return 0;
  }

  default void writeDelta(Group group, ByteWriter out) {
    write(group, out);
  }

  void merge(Group group, ByteReader delta);

  void write(Group group, ByteWriter out);

  /** The inverse of {@link #write}; sets every slot that this accumulator owns. */
  void read(Group group, ByteReader in);

  void result(Group group, UnsafeRowWriter out);

  /** Whether the order of rows can be seen in the result, as with sums of floating-point numbers. */
  default boolean ordered() {
    return false;
  }
}
