package io.tidemill.state;

import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.zone.ZoneRules;
import java.util.Map;
import java.util.TimeZone;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.unsafe.types.UTF8String;

/** The wall clock of a time zone. What it shows is milliseconds as if it were UTC. It is asked for every row: kept by name. */
final class WallClock {
  private static final long HOUR = 3_600_000;
  private static final Map<UTF8String, WallClock> CLOCKS = new ConcurrentHashMap<>();

  private final ZoneId zone;
  private final ZoneRules rules;
  private final boolean savesDaylight;

  private WallClock(ZoneId zone) {
    this.zone = zone;
    this.rules = zone.getRules();
    this.savesDaylight = TimeZone.getTimeZone(zone).useDaylightTime();
  }

  static WallClock in(UTF8String zone) {
    return CLOCKS.computeIfAbsent(zone, name -> new WallClock(ZoneId.of(name.toString())));
  }

  /** How far it is ahead of UTC at a point in time. */
  long offset(long instant) {
    return rules.getOffset(Instant.ofEpochMilli(instant)).getTotalSeconds() * 1000L;
  }

  /** When it shows a time; where it does so twice, the first time. */
  long first(long wall) {
    return instant(LocalDateTime.ofInstant(Instant.ofEpochMilli(wall), ZoneOffset.UTC));
  }

  /** When it has shown a time: where it does so twice, the second time; where never, when it has jumped over it. */
  long last(long wall) {
    long first = first(wall);
    if (!savesDaylight) {
      return first;
    }
    long hourLater = first(wall + HOUR);
    if (hourLater - first > HOUR) {
      return hourLater - HOUR;
    }
    return hourLater == first ? first - first % HOUR : first;
  }

  private long instant(LocalDateTime wall) {
    return wall.atZone(zone).toInstant().toEpochMilli();
  }
}
