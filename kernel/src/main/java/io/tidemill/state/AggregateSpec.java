package io.tidemill.state;

import java.io.Serializable;
import java.util.List;

/**
 * What the planner asks of a group aggregate, as it comes over the border. {@code retracting}: rows are taken out, too; {@code window}:
 * null where groups have no end.
 */
record AggregateSpec(
    String name, List<String> keys, List<Call> aggregates, boolean updateBefore, boolean retracting, List<Long> ttl,
    TimeSpec clock, WindowSpec window)
    implements Serializable {

  /**
   * One aggregate call: columns as arguments, constants as settings. {@code type} is the result's type in Spark's DDL.
   */
  record Call(
      String function,
      List<String> arguments,
      List<String> settings,
      boolean distinct,
      String filter,
      String output,
      String type)
      implements Serializable {

    Call {
      if (function == null || output == null || type == null) {
        throw new IllegalArgumentException("an aggregate needs 'function', 'output' and 'type'");
      }
      arguments = arguments == null ? List.of() : List.copyOf(arguments);
      settings = settings == null ? List.of() : List.copyOf(settings);
    }

    @Override
    public String toString() {
      String operand = arguments.isEmpty() ? "*" : (distinct ? "DISTINCT " : "") + String.join(", ", arguments);
      return function + "(" + operand + ")" + (filter == null ? "" : " FILTER (WHERE " + filter + ")");
    }
  }

  AggregateSpec {
    name = name == null ? "GroupAggregate" : name;
    keys = keys == null ? List.of() : List.copyOf(keys);
    aggregates = aggregates == null ? List.of() : List.copyOf(aggregates);
  }
}
