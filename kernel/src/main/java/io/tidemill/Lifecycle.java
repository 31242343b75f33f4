package io.tidemill;

import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;

/**
 * The sources of this driver's jobs, by the directory that each has below its job's checkpoint: which
 * of them have fixed where they start, and which have been asked to give nothing more.
 *
 * <p>A job that drains finishes the batch it is at, and commits it. Spark knows no such stop: it
 * interrupts a batch, and a batch that was half written is written again after the restart.
 */
public final class Lifecycle {
  private enum State {
    OPEN,
    FIXED,
    DRAINING,
    DRAINED
  }

  private static final Map<String, State> SOURCES = new ConcurrentHashMap<>();
  /** Checkpoints of jobs that are asked to end. One may have been asked before it has any source. */
  private static final Set<String> ENDING = ConcurrentHashMap.newKeySet();

  private Lifecycle() {}

  /** Forgets what was known of an earlier run from this checkpoint. */
  public static void begin(String checkpoint) {
    ENDING.remove(normal(checkpoint));
    SOURCES.keySet().removeIf(path -> isBelow(path, checkpoint));
  }

  /** How many sources of a job know their start: what is written from then on, the job reads. */
  public static int fixed(String checkpoint) {
    return (int) below(checkpoint).filter(e -> e.getValue() != State.OPEN).count();
  }

  /** Asks the sources of a job for nothing more. */
  public static void drain(String checkpoint) {
    ENDING.add(normal(checkpoint));
    below(checkpoint).forEach(e -> SOURCES.put(e.getKey(), State.DRAINING));
  }

  /** Whether all that the sources of a job have given is committed. */
  public static boolean isDrained(String checkpoint) {
    return below(checkpoint).allMatch(e -> e.getValue() == State.DRAINED);
  }

  public static void open(String source) {
    boolean isEnding = ENDING.stream().anyMatch(job -> isBelow(normal(source), job));
    SOURCES.putIfAbsent(normal(source), isEnding ? State.DRAINING : State.OPEN);
  }

  public static void fix(String source) {
    SOURCES.compute(
        normal(source),
        (path, state) -> state == null || state == State.OPEN ? State.FIXED : state);
  }

  /**
   * Whether a source must give nothing more. To be called when Spark asks for the next batch: it
   * does so when the one before is committed.
   */
  public static boolean mustDrain(String source) {
    return SOURCES.computeIfPresent(
            normal(source), (path, state) -> state == State.DRAINING ? State.DRAINED : state)
        == State.DRAINED;
  }

  private static Stream<Map.Entry<String, State>> below(String checkpoint) {
    return SOURCES.entrySet().stream().filter(e -> isBelow(e.getKey(), checkpoint));
  }

  private static boolean isBelow(String source, String checkpoint) {
    return source.startsWith(normal(checkpoint) + "/");
  }

  /** Spark writes file:/a where others write file:///a or /a. */
  private static String normal(String path) {
    return path.replaceFirst("^file:/+", "/").replaceAll("/+$", "");
  }
}
