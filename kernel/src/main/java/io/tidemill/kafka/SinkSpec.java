package io.tidemill.kafka;

import java.io.Serializable;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * The tables that one write goes to; a row names its table by its place in this list.
 *
 * @param job tells the job from every other, in all its runs; needed for exactly once
 */
record SinkSpec(String job, List<Target> sinks) implements Serializable {

  /**
   * One table as the target of rows.
   *
   * @param connector {@code kafka}; {@code print}: the rows' values are lines of text, for the {@link
   *     Printer} of the job; {@code filesystem}: their values are lines of files, in the partition
   *     that stands for a topic; {@code blackhole}: nothing becomes of the rows. All else but {@code
   *     path} is for {@code kafka} only
   * @param topic where a row goes that names no topic itself
   * @param topics the topics that a row may name; null if {@code topicPattern} tells, or any may
   * @param topicPattern a Java regular expression that the topic of a row must match in full
   * @param guarantee {@code exactly-once}, {@code at-least-once} or {@code none}
   * @param ends whether the job ends by itself: its end is flushed even if nothing is guaranteed,
   *     and any of its batches may be the last
   * @param transactionalIdPrefix with exactly once: writer p's transactional id is prefix-p
   * @param partitioner {@code default}: a row that names its partition goes there, and for others
   *     the client decides; {@code fixed}: writer p writes to partition p mod n, where a row's
   *     {@code partition} is the number of its writer, or, without one, that of its task
   * @param parallelism how many writers the table asks for; null if as many as there are tasks
   * @param buffer null to write every change of a key
   * @param path the directory of {@code filesystem}
   * @param successFile what is put into each of its partitions with a batch that has rows of it; null
   *     for nothing
   */
  record Target(
      String table,
      String connector,
      String topic,
      List<String> topics,
      String topicPattern,
      Map<String, String> properties,
      String guarantee,
      boolean ends,
      String transactionalIdPrefix,
      String partitioner,
      Integer parallelism,
      Buffer buffer,
      String path,
      String successFile)
      implements Serializable {
    Target {
      connector = connector == null ? "kafka" : connector;
      guarantee = guarantee == null ? "at-least-once" : guarantee;
      partitioner = partitioner == null ? "default" : partitioner;
      if (!List.of("kafka", "print", "filesystem", "blackhole").contains(connector)) {
        throw new IllegalArgumentException("connector '" + connector + "' is not known");
      }
      if (!List.of("exactly-once", "at-least-once", "none").contains(guarantee)) {
        throw new IllegalArgumentException("guarantee '" + guarantee + "' is not known");
      }
      if (!List.of("default", "fixed").contains(partitioner)) {
        throw new IllegalArgumentException("partitioner '" + partitioner + "' is not known");
      }
      if (guarantee.equals("exactly-once") && transactionalIdPrefix == null) {
        throw new IllegalArgumentException("exactly-once needs a transactionalIdPrefix");
      }
    }

    boolean isKafka() {
      return connector.equals("kafka");
    }

    boolean isFiles() {
      return connector.equals("filesystem");
    }

    boolean isPrint() {
      return connector.equals("print");
    }

    boolean takes(String name) {
      return topicPattern != null
          ? Pattern.matches(topicPattern, name)
          : topics == null || topics.contains(name);
    }

    /** Whether a task commits only when the broker has its rows. */
    boolean flushes() {
      return ends || !guarantee.equals("none");
    }

    boolean isTransactional() {
      return guarantee.equals("exactly-once");
    }

    boolean isFixed() {
      return partitioner.equals("fixed");
    }

    @Override
    public String toString() {
      return "Target[" + table + "]";
    }
  }

  /** Within an epoch only the last change of a key is written, at these marks at the latest. */
  record Buffer(int maxRows, long intervalMs) implements Serializable {}

  SinkSpec {
    if (sinks == null || sinks.isEmpty()) {
      throw new IllegalArgumentException("a sink spec needs at least one sink");
    }
    if (job == null && sinks.stream().anyMatch(Target::isTransactional)) {
      throw new IllegalArgumentException("exactly-once needs a job");
    }
  }

  boolean isTransactional() {
    return sinks.stream().anyMatch(Target::isTransactional);
  }

  /**
   * The transactional id of one writer of one sink. A table may be the target of several sinks, and
   * two tables may have the same prefix: the ids of all but the first carry their number, so that a
   * job does not fence itself.
   */
  String transactionalId(int sink, int writer) {
    String prefix = sinks.get(sink).transactionalIdPrefix();
    long before =
        sinks.subList(0, sink).stream()
            .filter(s -> prefix.equals(s.transactionalIdPrefix()))
            .count();
    return prefix + "-" + writer + (before == 0 ? "" : "." + before);
  }

  String described() {
    return String.join(", ", sinks.stream().map(Target::table).toList());
  }
}
