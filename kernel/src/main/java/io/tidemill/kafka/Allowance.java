package io.tidemill.kafka;

import java.util.function.LongSupplier;

/**
 * How many rows a source may read by now, if there is a limit to its rate.
 *
 * <p>What was not read in time is not caught up on: a second of silence earns a second of rows, and
 * an hour no more. A batch that takes long earns what the rate allows in that time.
 */
final class Allowance {
  private static final double NANOS = 1e9;

  private final Long rowsPerSecond;
  private final LongSupplier nanoTime;
  private double earned;
  private Long since;
  private boolean holdsBack;

  /**
   * @param rowsPerSecond null for no limit
   */
  Allowance(Long rowsPerSecond, LongSupplier nanoTime) {
    this.rowsPerSecond = rowsPerSecond;
    this.nanoTime = nanoTime;
    this.earned = rowsPerSecond == null ? 0 : rowsPerSecond;
  }

  /** How many of the waiting rows may be read; none while that would be a batch of a few rows. */
  long of(long waiting) {
    if (rowsPerSecond == null) {
      return Long.MAX_VALUE;
    }
    long now = nanoTime.getAsLong();
    earned += since == null ? 0 : rowsPerSecond * ((now - since) / NANOS);
    since = now;
    if (waiting == 0) {
      earned = Math.min(earned, rowsPerSecond);
    }
    long worth = Math.min(waiting, Math.max(1, rowsPerSecond / 2));
    holdsBack = waiting > 0 && earned < worth;
    return holdsBack ? 0 : (long) earned;
  }

  /** Whether rows wait only because of the rate. */
  boolean holdsBack() {
    return holdsBack;
  }

  void spend(long rows) {
    if (rowsPerSecond != null) {
      earned -= rows;
    }
  }
}
