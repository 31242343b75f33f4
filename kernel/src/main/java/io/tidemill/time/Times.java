package io.tidemill.time;

import java.util.HashMap;
import java.io.Serializable;
import java.util.Map;
import org.apache.spark.util.AccumulatorV2;

/** How far the partitions of a table have come, as its tasks have seen it: for people, and for reading them evenly. */
public final class Times extends AccumulatorV2<Times.Reading, Map<String, Times.Reading>> {
  /** Milliseconds: the greatest time of a row on a channel, and the greatest watermark. */
  public record Reading(String channel, long time, long watermark) implements Serializable {
    private Reading with(Reading other) {
      return new Reading(channel, Math.max(time, other.time), Math.max(watermark, other.watermark));
    }
  }

  private final Map<String, Reading> greatest = new HashMap<>();

  @Override
  public synchronized boolean isZero() {
    return greatest.isEmpty();
  }

  @Override
  public synchronized AccumulatorV2<Reading, Map<String, Reading>> copy() {
    Times copy = new Times();
    copy.greatest.putAll(greatest);
    return copy;
  }

  @Override
  public synchronized void reset() {
    greatest.clear();
  }

  @Override
  public synchronized void add(Reading reading) {
    greatest.merge(reading.channel(), reading, Reading::with);
  }

  @Override
  public synchronized void merge(AccumulatorV2<Reading, Map<String, Reading>> other) {
    other.value().values().forEach(this::add);
  }

  @Override
  public synchronized Map<String, Reading> value() {
    return Map.copyOf(greatest);
  }
}
