package io.tidemill.time;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.TaskContext;
import org.apache.spark.util.TaskCompletionListener;

/**
 * Event time in one task of Spark's: what its source or its operator says about it, for the operator that the task's
 * rows go to. Rows of one task come from one partition of one table, or from one task of one operator; whoever packs them
 * for a shuffle sends the marks along, after the last row.
 */
public final class TaskClock {
  private static final Map<Long, TaskClock> CLOCKS = new ConcurrentHashMap<>();
  private static final ThreadLocal<TaskClock> LAST = new ThreadLocal<>();

  private final long task;
  private final List<Mark> marks = new ArrayList<>();
  /** The channel of the partition that is read; null if none is. */
  private String read;
  private String origin = "";
  private boolean ends;
  private Times times;
  private long seen = Mark.NONE;
  private long latest = Mark.NONE;

  private TaskClock(long task) {
    this.task = task;
  }

  /** Also in the threads with which a task feeds Python. */
  public static TaskClock current() {
    TaskContext context = TaskContext.get();
    TaskClock last = LAST.get();
    if (last != null && last.task == context.taskAttemptId()) {
      return last;
    }
    TaskClock found =
        CLOCKS.computeIfAbsent(
            context.taskAttemptId(),
            id -> {
              context.addTaskCompletionListener((TaskCompletionListener) ended -> CLOCKS.remove(id));
              return new TaskClock(id);
            });
    LAST.set(found);
    return found;
  }

  /** Called by generated code, for each row of a table: {@code time}, unchanged. Both are microseconds. */
  public static long observe(long time, long watermark) {
    TaskClock clock = current();
    if (watermark > clock.seen) {
      clock.seen = watermark;
    }
    if (time > clock.latest) {
      clock.latest = time;
    }
    return time;
  }

  /**
   * The task reads a partition.
   *
   * @param channel its own
   * @param last whether there is nothing after what it reads
   * @param told who is told how far it has come; null for nobody
   */
  public synchronized void reads(String channel, boolean last, Times told) {
    read = channel;
    ends = last;
    times = told;
  }

  /** The rows of this task come from records of one partition of one topic. */
  public void comesFrom(String topic, int partition) {
    comesFrom(topic + "/" + partition);
  }

  public synchronized void comesFrom(String place) {
    origin = place;
  }

  /** Topic and partition, with a slash between; empty where rows are not those of records. */
  public synchronized String origin() {
    return origin;
  }

  public synchronized void tell(Mark mark) {
    marks.add(mark);
  }

  /** What there is to say when the last row has come by. */
  public synchronized List<Mark> marks() {
    List<Mark> all = new ArrayList<>(marks);
    if (read != null) {
      long watermark = milliseconds(seen);
      if (times != null) {
        times.add(new Times.Reading(read, milliseconds(latest), watermark));
      }
      all.add(new Mark(read, ends ? Mark.END : watermark, false));
    }
    return all;
  }

  private static long milliseconds(long micros) {
    return micros == Mark.NONE ? micros : Math.floorDiv(micros, 1000);
  }
}
