package io.tidemill;

import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What running jobs have to say to their user, one line each. In the log it is at once; whoever
 * watches the jobs takes it from here. What an executor of a cluster says here is in its own log only.
 */
public final class Notices {
  private static final Logger LOG = LoggerFactory.getLogger(Notices.class);
  private static final int MOST = 100;
  private static final long MINUTE_NANOS = 60_000_000_000L;

  private static final Queue<String> WAITING = new ConcurrentLinkedQueue<>();
  private static final Map<String, Long> SAID = new ConcurrentHashMap<>();

  private Notices() {}

  public static void say(String text) {
    LOG.warn("{}", text);
    WAITING.add(text);
    while (WAITING.size() > MOST) {
      WAITING.poll();
    }
  }

  /** Says it unless something was said of the same matter within the last minute. */
  public static void sayOnceAMinute(String matter, String text) {
    long now = System.nanoTime();
    SAID.values().removeIf(said -> now - said >= MINUTE_NANOS);
    if (SAID.putIfAbsent(matter, now) == null) {
      say(text);
    }
  }

  /** What was said since the last call, in lines. */
  public static String take() {
    StringBuilder lines = new StringBuilder();
    for (String text = WAITING.poll(); text != null; text = WAITING.poll()) {
      lines.append(text.replace('\n', ' ')).append('\n');
    }
    return lines.toString();
  }
}
