package io.tidemill.state;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;

/**
 * One side of a join, for the key at hand: the rows that it has, those that came, and how these change it.
 *
 * <p>Rows are a bag, which rows enter and leave one by one; what counts of a batch is the sum of each row's comings and
 * goings, in whatever order. Or, where updates come without the row before, they are told apart by a part of their
 * columns, and of a batch the last row of each part counts.
 */
final class JoinSide {
  /** Comes or goes: {@code diff} times a row. */
  static final class Change {
    final byte[] row;
    final long diff;
    /** Where a row that was not there before is kept; else null. */
    final Bag.Entry fresh;
    /** The rows of the other side that match. For a fresh row they are still to be counted. */
    long matches;

    Change(byte[] row, long diff, Bag.Entry fresh, long matches) {
      this.row = row;
      this.diff = diff;
      this.fresh = fresh;
      this.matches = matches;
    }
  }

  private record Told(byte[] part, byte[] row) {}

  private static final Comparator<byte[]> BY_BODY =
      (a, b) -> Arrays.compareUnsigned(a, PackedRow.HEADER, a.length, b, PackedRow.HEADER, b.length);
  private static final Comparator<Told> BY_PART =
      ((Comparator<Told>) (a, b) -> Arrays.compareUnsigned(a.part, b.part))
          .thenComparing(Told::row, Header.BY_NUMBER);

  final Bag bag;
  /** Of a row that has a match, and of one that has none: whether the join gives it by itself. */
  final boolean givenMatched;
  final boolean givenUnmatched;
  /** The rows that came, packed. */
  final List<byte[]> rows = new ArrayList<>();
  final List<Change> changes = new ArrayList<>();
  /** Null for a bag. */
  private final Part unique;
  private final Counts counts;
  private boolean wasEmpty;

  JoinSide(Bag bag, Part unique, boolean givenMatched, boolean givenUnmatched, Counts counts) {
    this.bag = bag;
    this.unique = unique;
    this.givenMatched = givenMatched;
    this.givenUnmatched = givenUnmatched;
    this.counts = counts;
  }

  boolean isUnique() {
    return unique != null;
  }

  boolean isGiven() {
    return givenMatched || givenUnmatched;
  }

  byte[] row(Bag.Entry entry) {
    return unique == null ? entry.key : entry.value;
  }

  boolean isEmpty() {
    return bag.size() == 0;
  }

  /** Whether there is a row now and was none, or the other way round. */
  boolean hasTurned() {
    return wasEmpty != isEmpty();
  }

  /** Brings the rows that came into the bag; {@link #changes} is what they change. */
  void settle() {
    changes.clear();
    if (rows.isEmpty()) {
      return;
    }
    wasEmpty = isEmpty();
    if (unique == null) {
      sums((row, diff) -> shift(row, diff));
    } else if (rows.size() == 1) {
      byte[] row = rows.get(0);
      replace(unique.of(row, PackedRow.HEADER), row, Header.adds(PackedRow.header(row)));
    } else {
      settleLast();
    }
  }

  interface Sum {
    void of(byte[] body, long diff);
  }

  /** Of the rows that came, each one with what is left of its comings and goings; in an order that is always the same. */
  void sums(Sum sum) {
    if (rows.size() > 1) {
      rows.sort(BY_BODY);
    }
    for (int i = 0; i < rows.size(); ) {
      byte[] row = rows.get(i);
      long diff = 0;
      do {
        diff += Header.adds(PackedRow.header(rows.get(i))) ? 1 : -1;
        i++;
      } while (i < rows.size() && BY_BODY.compare(row, rows.get(i)) == 0);
      if (diff != 0) {
        sum.of(PackedRow.body(row), diff);
      }
    }
  }

  private void shift(byte[] body, long diff) {
    Bag.Entry entry = diff > 0 ? bag.obtain(body) : bag.get(body);
    long before = entry == null ? 0 : entry.count;
    if (before + diff < 0) {
      counts.add(Counts.UNKNOWN_DELETE, -(before + diff));
    }
    long now = Math.max(0, before + diff);
    if (now == before) {
      return;
    }
    entry.count = now;
    bag.changed();
    if (now == 0) {
      bag.remove(body);
    }
    changes.add(new Change(body, now - before, before == 0 ? entry : null, entry.mark));
  }

  private void settleLast() {
    List<Told> told = new ArrayList<>(rows.size());
    for (byte[] row : rows) {
      told.add(new Told(unique.of(row, PackedRow.HEADER), row));
    }
    told.sort(BY_PART);
    Told first = null;
    boolean isThere = false;
    for (int i = 0; i < told.size(); i++) {
      Told one = told.get(i);
      boolean adds = Header.adds(PackedRow.header(one.row));
      first = first == null ? one : first;
      if (one != first && !isThere && !adds) {
        counts.add(Counts.UNKNOWN_DELETE, 1);
      }
      isThere = adds;
      if (i + 1 == told.size() || !Arrays.equals(one.part, told.get(i + 1).part)) {
        replace(one.part, one.row, Header.adds(PackedRow.header(first.row)));
        first = null;
      }
    }
  }

  /** {@code begins}: whether the first row of this part is put in. */
  private void replace(byte[] part, byte[] last, boolean begins) {
    Bag.Entry entry = bag.get(part);
    if (entry == null && !begins) {
      counts.add(Counts.UNKNOWN_DELETE, 1);
    }
    if (!Header.adds(PackedRow.header(last))) {
      if (entry != null) {
        changes.add(new Change(entry.value, -1, null, entry.mark));
        bag.remove(part);
      }
      return;
    }
    if (entry != null && PackedRow.isBody(last, entry.value)) {
      return;
    }
    byte[] body = PackedRow.body(last);
    if (entry == null) {
      bag.put(part, body);
      entry = bag.get(part);
    } else {
      changes.add(new Change(entry.value, -1, null, entry.mark));
      entry.value = body;
      entry.mark = 0;
      bag.changed();
    }
    changes.add(new Change(body, 1, entry, 0));
  }
}
