package io.tidemill.state;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.ToLongFunction;
import scala.Tuple2;

/**
 * What comes to a task of an operator too late: it is counted, by the partition that it comes from, and leaves as a dead
 * letter where these are wanted.
 *
 * <p>They are wanted of rows, and some operators get deltas. So a row brings the place of its record along then, and a
 * delta, which stands for one row, the row: that is taken off before the operator sees them.
 */
final class LateRows {
  /** The column that tells the place of a row's record in its partition; less than 0 where there is none. */
  static final String PLACE = "_place";

  private final Counts counts;
  private final boolean wanted;
  private final boolean ofDeltas;
  /** Where the tasks have their rows from that send rows to this one. */
  private final Map<Integer, String> origins = new HashMap<>();
  /** Of the key at hand: what each row is as a letter, by its identity. */
  private final Map<byte[], Sent> sent = new IdentityHashMap<>();
  private final ByteWriter out = new ByteWriter(256);
  private final List<Tuple2<byte[], byte[]>> given = new ArrayList<>();

  private record Sent(byte[] row, long place) {}

  /** {@code ofDeltas}: whether the operator gets deltas. */
  LateRows(Counts counts, boolean wanted, boolean ofDeltas) {
    this.counts = counts;
    this.wanted = wanted;
    this.ofDeltas = ofDeltas;
  }

  void comesFrom(Marking.Sender sender) {
    origins.put(sender.task(), sender.origin());
  }

  /** A delta with the row that it is made of, which is followed by its place. */
  static void attach(ByteWriter delta, byte[] row) {
    int length = delta.size();
    delta.writeRaw(row, 0, row.length);
    delta.writeFixed64(length);
  }

  /** What an operator gets of what was sent for a key. */
  byte[] opened(byte[] bytes) {
    if (!wanted) {
      return bytes;
    }
    int end = bytes.length - Long.BYTES;
    ByteReader in = new ByteReader();
    in.over(bytes, end, Long.BYTES);
    long last = in.readFixed64();
    if (!ofDeltas) {
      byte[] row = Arrays.copyOf(bytes, end);
      sent.put(row, new Sent(row, last));
      return row;
    }
    byte[] delta = Arrays.copyOf(bytes, (int) last);
    in.over(bytes, end - Long.BYTES, Long.BYTES);
    sent.put(delta, new Sent(Arrays.copyOfRange(bytes, delta.length, end - Long.BYTES), in.readFixed64()));
    return delta;
  }

  /** Forgets the rows of a key. */
  void close() {
    sent.clear();
  }

  /** So many rows are late, which the given one stands for. */
  void count(byte[] row, long rows) {
    counts.addLate(origin(row), rows);
  }

  /**
   * They are dropped, too.
   *
   * @param time tells the time of a row, in milliseconds
   */
  void drop(byte[] row, long rows, long watermark, ToLongFunction<byte[]> time) {
    count(row, rows);
    if (wanted) {
      Sent letter = sent.get(row);
      byte[] origin = origin(row).getBytes(StandardCharsets.UTF_8);
      out.reset();
      out.writeFixed64(watermark);
      out.writeFixed64(time.applyAsLong(letter.row));
      out.writeFixed64(letter.place);
      out.writeBytes(origin, 0, origin.length);
      out.writeRaw(letter.row, 0, letter.row.length);
      given.add(new Tuple2<>(Letters.KEY, out.toBytes()));
    }
  }

  private String origin(byte[] row) {
    return origins.getOrDefault(Header.task(PackedRow.header(row)), "");
  }

  /** What leaves with the changes of a key: those first. */
  List<Tuple2<byte[], byte[]>> after(List<Tuple2<byte[], byte[]>> changes) {
    if (given.isEmpty()) {
      return changes;
    }
    List<Tuple2<byte[], byte[]>> all = new ArrayList<>(changes);
    all.addAll(given);
    given.clear();
    return all;
  }
}
