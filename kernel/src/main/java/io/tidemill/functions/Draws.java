package io.tidemill.functions;

import java.util.Arrays;
import java.util.UUID;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.spark.TaskContext;

/**
 * Random numbers that come out again when a batch is run again.
 *
 * <p>Law: a number is a hash of the query (or of the seed that the call gives), the batch, the task's
 * partition, the place of the call in the query, and how often the task has come to that place. It
 * is counted by place, because what stands between two places, a Python worker for example,
 * decides in which order they are come to, and sometimes in which thread.
 */
final class Draws {
  private static final long GOLDEN = 0x9E3779B97F4A7C15L;
  private static final ThreadLocal<Draws> OF_THREAD = ThreadLocal.withInitial(Draws::new);

  private long task = Long.MIN_VALUE;
  /** Two halves, because a UUID needs more than one number has room for. */
  private long high;

  private long low;
  /** Of the batch and the partition alone, for calls that bring a seed. */
  private long place;

  private long[] calls = new long[8];

  private Draws() {}

  /** RAND(). */
  static Double number(Integer site) {
    Draws draws = current();
    return number(draws.high, site, draws.count(site));
  }

  /** RAND(seed): the same numbers in every job. */
  static Double seeded(Integer site, Integer seed) {
    Draws draws = current();
    return number(mix(draws.place + (seed == null ? 0 : seed)), site, draws.count(site));
  }

  /** UUID(), of version 4. */
  static String uuid(Integer site) {
    Draws draws = current();
    long count = draws.count(site);
    long most = draw(draws.high, site, count) & ~0xF000L | 0x4000L;
    long least = draw(draws.low, site, count) & ~(3L << 62) | 2L << 62;
    return new UUID(most, least).toString();
  }

  private static Draws current() {
    Draws draws = OF_THREAD.get();
    TaskContext context = TaskContext.get();
    // Not the context itself: a thread outlives its tasks.
    long task = context == null ? -1 : context.taskAttemptId();
    if (draws.task != task) {
      draws.begin(context, task);
    }
    return draws;
  }

  private void begin(TaskContext context, long task) {
    this.task = task;
    Arrays.fill(calls, 0);
    String query = context == null ? null : context.getLocalProperty("sql.streaming.queryId");
    String batch = context == null ? null : context.getLocalProperty("streaming.sql.batchId");
    if (query == null || batch == null) {
      high = ThreadLocalRandom.current().nextLong();
      low = ThreadLocalRandom.current().nextLong();
      place = 0;
      return;
    }
    UUID id = UUID.fromString(query);
    place = mix(Long.parseLong(batch) * GOLDEN + context.partitionId());
    high = mix(id.getMostSignificantBits() + place);
    low = mix(id.getLeastSignificantBits() - place);
  }

  private long count(int site) {
    if (site >= calls.length) {
      calls = Arrays.copyOf(calls, Math.max(site + 1, calls.length * 2));
    }
    return calls[site]++;
  }

  private static double number(long seed, int site, long count) {
    return (draw(seed, site, count) >>> 11) * 0x1.0p-53;
  }

  private static long draw(long seed, int site, long count) {
    return mix(mix(seed + site) + count * GOLDEN);
  }

  /** Every bit of the result depends on every bit that is given (SplitMix64). */
  private static long mix(long z) {
    z += GOLDEN;
    z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
    z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
    return z ^ (z >>> 31);
  }
}
