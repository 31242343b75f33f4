package io.tidemill.state;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/** The first rows of each key in an order: a Top-N needs no more of them. */
final class FirstRows extends ChosenRows {
  /** Heap that a row takes beyond its bytes. */
  private static final int ENTRY = 160;

  private record Placed(byte[] place, Tuple2<byte[], byte[]> pair) implements Comparable<Placed> {
    /** Last ones first. */
    @Override
    public int compareTo(Placed other) {
      return Arrays.compareUnsigned(other.place, place);
    }

    long bytes() {
      return ENTRY + place.length + pair._1().length + pair._2().length;
    }
  }

  private final SortKey order;
  private final UnsafeRow row;
  private final long most;
  private Map<Key, PriorityQueue<Placed>> first;
  private long taken;

  FirstRows(
      Iterator<Tuple2<byte[], byte[]>> rows, StructType columns, List<SortKey.Column> order, long most) {
    super(rows);
    this.order = new SortKey(columns, order);
    this.row = new UnsafeRow(columns.size());
    this.most = most;
  }

  @Override
  void clear() {
    first = new HashMap<>();
    taken = 0;
  }

  @Override
  long offer(Tuple2<byte[], byte[]> pair) {
    // Rows of a task come by their numbers.
    byte[] place = order.of(PackedRow.point(row, pair._2()), ++taken);
    PriorityQueue<Placed> best = first.computeIfAbsent(new Key(pair._1()), k -> new PriorityQueue<>(4));
    long bytes = 0;
    if (best.size() >= most) {
      if (Arrays.compareUnsigned(place, best.peek().place) > 0) {
        return 0;
      }
      bytes -= best.poll().bytes();
    }
    Placed placed = new Placed(place, pair);
    best.add(placed);
    return bytes + placed.bytes();
  }

  @Override
  List<Tuple2<byte[], byte[]>> chosen() {
    List<Tuple2<byte[], byte[]>> all = new ArrayList<>();
    first.values().forEach(best -> best.forEach(placed -> all.add(placed.pair)));
    return all;
  }
}
