package io.tidemill.kafka;

import java.io.Serializable;
import java.util.List;
import java.util.Map;

/** The tables that one write goes to; a row names its table by its place in this list. */
record SinkSpec(List<Target> sinks) implements Serializable {

  /**
   * One Kafka table as the target of rows.
   *
   * @param topic where a row goes that names no topic itself
   * @param guarantee {@code at-least-once} or {@code none}
   */
  record Target(String table, String topic, Map<String, String> properties, String guarantee)
      implements Serializable {
    Target {
      guarantee = guarantee == null ? "at-least-once" : guarantee;
      if (!guarantee.equals("at-least-once") && !guarantee.equals("none")) {
        throw new IllegalArgumentException("guarantee '" + guarantee + "' is not known");
      }
    }

    boolean flushes() {
      return !guarantee.equals("none");
    }

    @Override
    public String toString() {
      return "Target[" + table + "]";
    }
  }

  SinkSpec {
    if (sinks == null || sinks.isEmpty()) {
      throw new IllegalArgumentException("a sink spec needs at least one sink");
    }
  }

  String described() {
    return String.join(", ", sinks.stream().map(Target::table).toList());
  }
}
