package io.tidemill.state;

import org.apache.spark.sql.Column;
import org.apache.spark.sql.functions;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Slices are what overlapping windows share: stretches of time that no window begins or ends within. A row is in one of
 * them, which its header names by its end, in milliseconds, beside the row's kind.
 */
public final class Slice {
  private static final int SHIFT = 2;
  /** An odd number without a pattern: multiplied by it, numbers that are near are far from each other. */
  private static final long SPREAD = 0x9E3779B97F4A7C15L;

  private Slice() {}

  /** Called by generated code: microseconds as milliseconds. */
  public static long milliseconds(long micros) {
    return Math.floorDiv(micros, 1000L);
  }

  /** Called by generated code: the end of the slice that a time in microseconds is in. */
  public static long end(long micros, long length, long offset) {
    long at = Math.floorDiv(micros, 1000L);
    return at - Math.floorMod(at - offset, length) + length;
  }

  /** Called by generated code: what the wall clock shows at a point in time, as microseconds. */
  public static long wall(long micros, UTF8String zone) {
    return micros + 1000 * WallClock.in(zone).offset(Math.floorDiv(micros, 1000L));
  }

  /** Called by generated code. */
  public static long micros(long milliseconds) {
    return 1000 * milliseconds;
  }

  /** Called by generated code. */
  public static long last(long end, WindowSpec windows) {
    return windows.last(end);
  }

  /** Called by generated code. */
  public static long start(long end, WindowSpec windows) {
    return windows.start(end);
  }

  /** Called by generated code. */
  public static long time(long end, WindowSpec windows) {
    return windows.time(end);
  }

  /** A row's header: the end of its slice, and its kind. */
  static Column header(Column end, Column kind) {
    return functions.shiftleft(end, SHIFT).bitwiseOR(kind);
  }

  static long end(long header) {
    return header >> SHIFT;
  }

  /** A key's hash, in whose lower bits keys of different slices differ. */
  static long hash(long key, long end, long lower) {
    return key ^ (end * SPREAD >>> 40 & lower);
  }
}
