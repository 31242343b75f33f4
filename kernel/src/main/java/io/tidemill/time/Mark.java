package io.tidemill.time;

import java.io.Serializable;

/**
 * How far event time has come on one channel: a partition of a table, or a task of an operator.
 *
 * @param channel the same in every batch and after every restart
 * @param watermark milliseconds; {@link #NONE} says nothing new, {@link #END} that nothing will come any more
 * @param idle whether others need not wait for it
 */
public record Mark(String channel, long watermark, boolean idle) implements Serializable {
  public static final long NONE = Long.MIN_VALUE;
  public static final long END = Long.MAX_VALUE;
}
