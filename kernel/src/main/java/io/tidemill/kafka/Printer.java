package io.tidemill.kafka;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** Takes lines of text on the driver, where people are. Python implements it. */
public interface Printer {
  /**
   * Takes what an epoch gave for one sink, in the order of the tasks.
   *
   * @param lines a JSON array of strings: a row's kind, one digit, and its text. One string crosses
   *     to Python at once, where each element of a list would cross by itself
   */
  void take(int sink, String lines);

  /** Whoever prints for each job that prints. */
  Map<String, Printer> BY_JOB = new ConcurrentHashMap<>();

  static void print(SinkSpec spec, WriterCommitMessage[] messages) {
    for (int sink = 0; sink < spec.sinks().size(); sink++) {
      if (!spec.sinks().get(sink).isPrint()) {
        continue;
      }
      List<String> lines = new ArrayList<>();
      for (WriterCommitMessage message : messages) {
        if (message instanceof Written.Message task) {
          lines.addAll(task.lines().getOrDefault(sink, List.of()));
        }
      }
      if (!lines.isEmpty()) {
        BY_JOB.get(spec.job()).take(sink, Json.write(lines));
      }
    }
  }
}
