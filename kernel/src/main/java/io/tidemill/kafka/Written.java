package io.tidemill.kafka;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * What a query has written since it started: rows and bytes of keys and values, by table, and for
 * Kafka tables how many writers there are: those that were asked for, or else as many as had rows
 * at once. Totals and not figures per batch, because Spark shows them again
 * when a trigger had nothing to do.
 */
final class Written {
  /** What one task wrote, in the order of the sinks, and by sink the lines to print, or the directories of files. */
  record Message(long[] rows, long[] bytes, Map<Integer, List<String>> lines)
      implements WriterCommitMessage {}

  private final TreeMap<String, long[]> totals = new TreeMap<>();
  private final TreeMap<String, Long> writers = new TreeMap<>();

  synchronized void add(SinkSpec spec, WriterCommitMessage[] messages) {
    for (WriterCommitMessage message : messages) {
      if (message instanceof Message task) {
        for (int i = 0; i < task.rows().length; i++) {
          long[] total = totals.computeIfAbsent(spec.sinks().get(i).table(), t -> new long[2]);
          total[0] += task.rows()[i];
          total[1] += task.bytes()[i];
        }
      }
    }
    Map<String, Long> now = new TreeMap<>();
    for (int i = 0; i < spec.sinks().size(); i++) {
      int sink = i;
      SinkSpec.Target target = spec.sinks().get(i);
      if (target.isKafka()) {
        long busy =
            Arrays.stream(messages)
                .filter(m -> m instanceof Message t && t.rows()[sink] > 0)
                .count();
        Integer asked = target.parallelism();
        now.merge(target.table(), asked == null ? busy : asked, Long::sum);
      }
    }
    now.forEach((table, number) -> writers.merge(table, number, Math::max));
  }

  synchronized Map<String, String> metrics() {
    long rows = 0;
    long bytes = 0;
    TreeMap<String, Map<String, Long>> tables = new TreeMap<>();
    for (Map.Entry<String, long[]> table : totals.entrySet()) {
      long[] total = table.getValue();
      rows += total[0];
      bytes += total[1];
      Map<String, Long> figures = new TreeMap<>(Map.of("rows", total[0], "bytes", total[1]));
      if (writers.containsKey(table.getKey())) {
        figures.put("writers", writers.get(table.getKey()));
      }
      tables.put(table.getKey(), figures);
    }
    return Map.of(
        "rows", Long.toString(rows), "bytes", Long.toString(bytes), "tables", Json.write(tables));
  }
}
