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

/**
 * Of the rows of a map task, the first ones of each key in an order: a Top-N needs no more of them. Memory is bounded:
 * at {@link #MAX_BYTES} the rows leave and the table starts anew; a task that finds little to leave out stops looking.
 */
final class FirstRows implements Iterator<Tuple2<byte[], byte[]>> {
  private static final long MAX_BYTES = 32L << 20;
  /** Heap that a row takes beyond its bytes. */
  private static final int ENTRY = 160;
  private static final double WORTHWHILE = 1.1;

  private record Placed(byte[] place, Tuple2<byte[], byte[]> pair) implements Comparable<Placed> {
    /** Last ones first. */
    @Override
    public int compareTo(Placed other) {
      return Arrays.compareUnsigned(other.place, place);
    }
  }

  private final Iterator<Tuple2<byte[], byte[]>> rows;
  private final SortKey order;
  private final UnsafeRow row;
  private final long most;
  private Iterator<Tuple2<byte[], byte[]>> kept = List.<Tuple2<byte[], byte[]>>of().iterator();
  private boolean choosing = true;

  FirstRows(
      Iterator<Tuple2<byte[], byte[]>> rows, StructType columns, List<SortKey.Column> order, long most) {
    this.rows = rows;
    this.order = new SortKey(columns, order);
    this.row = new UnsafeRow(columns.size());
    this.most = most;
  }

  @Override
  public boolean hasNext() {
    return kept.hasNext() || rows.hasNext();
  }

  @Override
  public Tuple2<byte[], byte[]> next() {
    if (!kept.hasNext()) {
      if (!choosing) {
        return rows.next();
      }
      fill();
    }
    return kept.next();
  }

  private void fill() {
    Map<LastRows.Key, PriorityQueue<Placed>> first = new HashMap<>();
    long taken = 0;
    long size = 0;
    long bytes = 0;
    do {
      Tuple2<byte[], byte[]> pair = rows.next();
      taken++;
      byte[] packed = pair._2();
      // Rows of a task come by their numbers.
      byte[] place = order.of(PackedRow.point(row, packed), taken);
      PriorityQueue<Placed> best =
          first.computeIfAbsent(new LastRows.Key(pair._1()), k -> new PriorityQueue<>(4));
      if (best.size() >= most) {
        if (Arrays.compareUnsigned(place, best.peek().place) > 0) {
          continue;
        }
        bytes -= bytes(best.poll());
        size--;
      }
      Placed placed = new Placed(place, pair);
      best.add(placed);
      bytes += bytes(placed);
      size++;
    } while (bytes < MAX_BYTES && rows.hasNext());
    choosing = taken >= size * WORTHWHILE;
    List<Tuple2<byte[], byte[]>> all = new ArrayList<>();
    first.values().forEach(best -> best.forEach(placed -> all.add(placed.pair)));
    all.sort((a, b) -> Long.compareUnsigned(PackedRow.header(a._1()), PackedRow.header(b._1())));
    kept = all.iterator();
  }

  private static long bytes(Placed placed) {
    return ENTRY + placed.place.length + placed.pair._1().length + placed.pair._2().length;
  }
}
