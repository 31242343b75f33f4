package io.tidemill.kafka;

import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** One daemon thread of the JVM that closes what nobody uses any more. */
final class Housekeeping {
  private static final Logger LOG = LoggerFactory.getLogger(Housekeeping.class);
  private static final ScheduledExecutorService THREAD =
      Executors.newSingleThreadScheduledExecutor(
          task -> {
            Thread thread = new Thread(task, "tidemill-housekeeping");
            thread.setDaemon(true);
            return thread;
          });

  private Housekeeping() {}

  static void everyMinute(String what, Runnable task) {
    THREAD.scheduleWithFixedDelay(logged(what, task), 1, 1, TimeUnit.MINUTES);
  }

  static void soon(String what, Runnable task) {
    THREAD.execute(logged(what, task));
  }

  private static Runnable logged(String what, Runnable task) {
    return () -> {
      try {
        task.run();
      } catch (RuntimeException e) {
        // An exception would end the schedule.
        LOG.warn("{} not closed", what, e);
      }
    };
  }
}
