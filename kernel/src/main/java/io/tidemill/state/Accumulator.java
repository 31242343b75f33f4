package io.tidemill.state;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;

/**
 * One aggregate call. A row takes two hops: a map task <em>collects</em> rows into a group and writes the group's
 * <em>delta</em>; the task that owns the key <em>merges</em> the deltas into the group it has read from state.
 * Law: the deltas of a batch, however the rows were cut into them, lead to the same state.
 *
 * <p>A row is put in with sign 1 and taken out with sign -1; over append-only input all signs are 1. A row may be taken
 * out before it is put in, by another task's delta: what that means is settled when the batch is through.
 */
interface Accumulator {
  /** Takes one row into, or out of, the group as state knows it. */
  void add(Group group, SpecializedGetters row, int sign);

  /** Takes one row into the group of a map task; returns how many bytes of heap that cost beyond the fixed slots. */
  default int collect(Group group, SpecializedGetters row, int sign) {
    add(group, row, sign);
    return 0;
  }

  default void writeDelta(Group group, ByteWriter out) {
    write(group, out);
  }

  void merge(Group group, ByteReader delta);

  /** Ends a batch: all its deltas have been merged. Returns how many rows were taken out that had never been put in. */
  default long settle(Group group) {
    return 0;
  }

  /** Drops what the group keeps beside its value: it has no rows any more. */
  default void drop(Group group) {}

  void write(Group group, ByteWriter out);

  /** The inverse of {@link #write}; sets every slot that this accumulator owns. */
  void read(Group group, ByteReader in);

  void result(Group group, UnsafeRowWriter out);

  /** Whether the order of rows can be seen in the result, as with sums of floating-point numbers. */
  default boolean ordered() {
    return false;
  }
}
