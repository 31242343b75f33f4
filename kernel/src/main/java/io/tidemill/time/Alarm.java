package io.tidemill.time;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.util.AccumulatorV2;

/**
 * When the next thing of a job is due by the clock of the machine. Operators set it, wherever their tasks run; a source
 * of the job, on the driver, sees to it that a batch runs then, though there is nothing to read.
 */
public final class Alarm extends AccumulatorV2<Long, Long> {
  private static final long NEVER = Long.MAX_VALUE;
  private static final Map<String, Alarm> ALARMS = new ConcurrentHashMap<>();

  private long due = NEVER;

  /**
   * The alarm of a job, the same for all who ask with its name. It rings at once when the job starts: what waits in its
   * state is known only when its tasks have looked.
   */
  public static Alarm of(String job, SparkContext context) {
    Alarm alarm =
        ALARMS.computeIfAbsent(
            job,
            name -> {
              Alarm made = new Alarm();
              context.register(made);
              return made;
            });
    alarm.add(Long.MIN_VALUE);
    return alarm;
  }

  /** Whether the alarm of a job rings; whom it rings for sees to it. */
  public static boolean rings(String job, long now) {
    Alarm alarm = ALARMS.get(job);
    return alarm != null && alarm.take(now);
  }

  private synchronized boolean take(long now) {
    if (due > now) {
      return false;
    }
    due = NEVER;
    return true;
  }

  @Override
  public boolean isZero() {
    return due == NEVER;
  }

  @Override
  public AccumulatorV2<Long, Long> copy() {
    Alarm copy = new Alarm();
    copy.due = due;
    return copy;
  }

  @Override
  public synchronized void reset() {
    due = NEVER;
  }

  @Override
  public synchronized void add(Long time) {
    due = Math.min(due, time);
  }

  @Override
  public synchronized void merge(AccumulatorV2<Long, Long> other) {
    due = Math.min(due, other.value());
  }

  @Override
  public Long value() {
    return due;
  }
}
