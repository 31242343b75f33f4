package io.tidemill.time;

import java.util.Map;
import java.util.TreeMap;

/**
 * An operator's watermark: the least of its channels that are not idle, or, if all are, the greatest. It never goes back.
 */
public final class Valve {
  private record Channel(long watermark, boolean idle) {}

  private final Map<String, Channel> channels = new TreeMap<>();
  private long watermark = Mark.NONE;

  public void set(Mark mark) {
    Channel before = channels.get(mark.channel());
    long reached = before == null ? mark.watermark() : Math.max(before.watermark(), mark.watermark());
    channels.put(mark.channel(), new Channel(reached, mark.idle()));
  }

  /** Takes the marks since the last call into account; the watermark after them. */
  public long advance() {
    long least = Mark.END;
    long greatest = Mark.NONE;
    for (Channel each : channels.values()) {
      greatest = Math.max(greatest, each.watermark());
      if (!each.idle()) {
        least = Math.min(least, each.watermark());
      }
    }
    watermark = Math.max(watermark, isIdle() ? greatest : least);
    return watermark;
  }

  public long watermark() {
    return watermark;
  }

  public boolean isIdle() {
    return channels.values().stream().allMatch(Channel::idle);
  }

  /** As it was when the channels were as they are now. */
  public void restore(long reached) {
    watermark = reached;
  }

  public Iterable<Mark> marks() {
    return channels.entrySet().stream()
        .map(e -> new Mark(e.getKey(), e.getValue().watermark(), e.getValue().idle()))
        .toList();
  }
}
