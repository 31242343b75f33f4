package io.tidemill.state;

import java.util.Comparator;

/**
 * What the eight bytes before a packed row say: its kind, from which of two inputs it comes, and its number, which puts
 * the rows of a key in order. Shuffles keep no order, so rows are numbered before them: by the task they leave and their
 * place among its rows. A replayed batch gives the same numbers.
 */
final class Header {
  static final byte INSERT = 0;
  static final byte UPDATE_BEFORE = 1;
  static final byte UPDATE_AFTER = 2;
  static final byte DELETE = 3;

  /** The second of two inputs. */
  static final long RIGHT = 4;

  /**
   * Of a row that stands for several of its key, whose kind is then that of the first of them: the last one is put in
   * where the first was taken out, or the other way round. Here there is one input.
   */
  private static final long TURNED = 4;

  static final int NUMBER_SHIFT = 3;
  private static final int TASK_SHIFT = 40;

  /** Packed rows in the order of their numbers. */
  static final Comparator<byte[]> BY_NUMBER = Comparator.comparingLong(row -> number(PackedRow.header(row)));

  private Header() {}

  static int kind(long header) {
    return (int) header & 3;
  }

  /** Whether a row of this kind is put in, and not taken out. */
  static boolean adds(long header) {
    return (header & 1) == 0;
  }

  static boolean isRight(long header) {
    return (header & RIGHT) != 0;
  }

  /** Of a row that may stand for several: whether the last one of them is put in. */
  static boolean endsAdded(long header) {
    return adds(header) == ((header & TURNED) == 0);
  }

  /** The header of a last row that stands for those before it, too. */
  static long after(long before, long last) {
    long turned = adds(before) == adds(last) ? 0 : TURNED;
    return last & ~7L | kind(before) | turned;
  }

  static long number(long header) {
    return header >>> NUMBER_SHIFT;
  }

  /** The task that a numbered row comes from. */
  static int task(long header) {
    return (int) (number(header) >>> TASK_SHIFT);
  }

  static long numbered(long header, int task, long row) {
    return header & 7 | ((long) task << TASK_SHIFT | row) << NUMBER_SHIFT;
  }
}
