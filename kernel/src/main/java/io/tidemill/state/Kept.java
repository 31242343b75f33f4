package io.tidemill.state;

import java.util.ArrayList;
import java.util.List;

/** The rows of open sessions: what a session keeps are the numbers of its {@link Segments}. */
final class Kept {
  private static final long TIME = 0;

  private final Segments segments;
  private final ByteReader in = new ByteReader();
  private final ByteWriter out = new ByteWriter(256);

  Kept(Segments segments) {
    this.segments = segments;
  }

  byte[] keep(byte[] key, Sessions.Session session, Sessions of) {
    List<Long> numbers = numbers(session);
    if (!session.rows.isEmpty()) {
      out.reset();
      session.rows.forEach(row -> out.writeBytes(row, 0, row.length));
      long number = of.nextPiece();
      segments.put(TIME, key, number, out.toBytes());
      numbers.add(number);
    }
    out.reset();
    numbers.forEach(out::writeVarint);
    return out.toBytes();
  }

  /** All rows of a session as they have come; they are kept no longer. */
  List<byte[]> take(byte[] key, Sessions.Session session) {
    List<byte[]> rows = new ArrayList<>();
    for (long number : numbers(session)) {
      in.over(segments.get(TIME, key, number));
      while (in.hasMore()) {
        rows.add(in.readBytes());
      }
      segments.remove(TIME, key, number);
    }
    rows.addAll(session.rows);
    return rows;
  }

  private List<Long> numbers(Sessions.Session session) {
    List<Long> numbers = new ArrayList<>();
    for (byte[] some : session.kept) {
      in.over(some);
      while (in.hasMore()) {
        numbers.add(in.readVarint());
      }
    }
    numbers.sort(null);
    return numbers;
  }
}
