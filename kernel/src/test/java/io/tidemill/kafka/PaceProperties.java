package io.tidemill.kafka;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Random;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.kafka.common.TopicPartition;

/**
 * Properties of how much a batch reads, each over many random cases from a seed given on the command line. Prints one line
 * per property; the first failure ends the run with its seed in the message. Started by
 * tests/kernel/test_kernel_properties.py.
 */
public final class PaceProperties {
  private static final int ROUNDS = 500;
  private static final long SECOND = 1_000_000_000;

  private PaceProperties() {}

  public static void main(String[] args) {
    long seed = Long.parseLong(args[0]);
    Map<String, Consumer<Random>> properties = new LinkedHashMap<>();
    properties.put("a batch is as large as it may be, and no larger", PaceProperties::exact);
    properties.put("a partition waits for its turn, and not longer", PaceProperties::turns);
    properties.put("no more rows are read than the rate has earned", PaceProperties::rate);
    properties.put("silence earns the rows of a second, and no more", PaceProperties::silence);
    properties.put("without a rate nothing is held back", PaceProperties::unlimited);
    for (Map.Entry<String, Consumer<Random>> property : properties.entrySet()) {
      for (int round = 0; round < ROUNDS; round++) {
        try {
          property.getValue().accept(new Random(seed + round));
        } catch (RuntimeException | AssertionError e) {
          throw new AssertionError(property.getKey() + ", seed " + (seed + round), e);
        }
      }
      System.out.println("holds: " + property.getKey());
    }
  }

  private static void check(boolean condition, Supplier<String> otherwise) {
    if (!condition) {
      throw new AssertionError(otherwise.get());
    }
  }

  private static Map<TopicPartition, Long> backlog(Random random) {
    Map<TopicPartition, Long> backlog = new HashMap<>();
    int partitions = 1 + random.nextInt(40);
    for (int p = 0; p < partitions; p++) {
      backlog.put(new TopicPartition("t" + p % 3, p), (long) random.nextInt(1 << random.nextInt(16)));
    }
    return backlog;
  }

  private static long sum(Map<TopicPartition, Long> rows) {
    return rows.values().stream().mapToLong(Long::longValue).sum();
  }

  private static void exact(Random random) {
    Map<TopicPartition, Long> backlog = backlog(random);
    long limit = 1 + random.nextInt(1 << random.nextInt(16));
    Map<TopicPartition, Long> taken = new Admission().share(backlog, limit, false);
    check(sum(taken) == Math.min(limit, sum(backlog)), () -> sum(taken) + " of " + limit);
    long waiting = backlog.values().stream().filter(rows -> rows > 0).count();
    check(taken.size() == Math.min(limit, waiting), () -> "partitions: " + taken.size());
    taken.forEach(
        (tp, rows) -> check(rows > 0 && rows <= backlog.get(tp), () -> tp + ": " + rows));
  }

  private static void turns(Random random) {
    Admission admission = new Admission();
    int partitions = 2 + random.nextInt(20);
    int limit = 1 + random.nextInt(partitions - 1);
    Map<TopicPartition, Integer> taken = new HashMap<>();
    for (int batch = 0; batch < partitions; batch++) {
      Map<TopicPartition, Long> backlog = new HashMap<>();
      for (int p = 0; p < partitions; p++) {
        backlog.put(new TopicPartition("t", p), 1L + random.nextInt(100));
      }
      admission.share(backlog, limit, false).keySet().forEach(tp -> taken.merge(tp, 1, Integer::sum));
    }
    // As many batches as partitions: each partition was taken as often as a batch takes rows.
    check(taken.size() == partitions, () -> "starved: " + taken);
    check(taken.values().stream().allMatch(times -> times == limit), () -> "unfair: " + taken);
  }

  private static void rate(Random random) {
    long[] now = {random.nextLong()};
    long begun = now[0];
    long rate = 1 + random.nextInt(1000);
    Allowance allowance = new Allowance(rate, () -> now[0]);
    long read = 0;
    for (int batch = 0; batch < 50; batch++) {
      long waiting = 1 + random.nextInt(5000);
      long rows = Math.min(waiting, allowance.of(waiting));
      check(rows > 0 || allowance.holdsBack(), () -> "nothing, and no reason");
      allowance.spend(rows);
      read += rows;
      long most = rate + (long) Math.ceil(rate * ((now[0] - begun) / 1e9));
      long total = read;
      check(total <= most, () -> total + " rows, earned " + most);
      now[0] += random.nextInt((int) SECOND);
    }
    now[0] += SECOND;
    check(allowance.of(1) > 0, () -> "held back for ever");
  }

  private static void silence(Random random) {
    long[] now = {random.nextLong()};
    long rate = 1 + random.nextInt(1000);
    Allowance allowance = new Allowance(rate, () -> now[0]);
    for (int second = 0; second < 1 + random.nextInt(100); second++) {
      allowance.of(0);
      check(!allowance.holdsBack(), () -> "nothing waits, and is held back");
      now[0] += SECOND;
    }
    allowance.of(0);
    long rows = allowance.of(Long.MAX_VALUE);
    check(rows == rate, () -> rows + " rows at a rate of " + rate);
  }

  private static void unlimited(Random random) {
    Allowance allowance = new Allowance(null, () -> random.nextLong());
    allowance.spend(1 + random.nextInt(1000));
    check(allowance.of(1 + random.nextInt(1000)) == Long.MAX_VALUE, () -> "limited");
    check(!allowance.holdsBack(), () -> "held back");
  }
}
