package io.tidemill.state;

import java.io.Serializable;
import java.util.List;

/** What the planner asks of a group aggregate, as it comes over the border. */
record AggregateSpec(String name, List<String> keys, List<Call> aggregates, boolean updateBefore, List<Long> ttl)
    implements Serializable {

  /** One aggregate call; {@code type} is the result's type in Spark's DDL. */
  record Call(
      String function, String argument, boolean distinct, String filter, String output, String type)
      implements Serializable {

    Call {
      if (function == null || output == null || type == null) {
        throw new IllegalArgumentException("an aggregate needs 'function', 'output' and 'type'");
      }
    }

    @Override
    public String toString() {
      String operand = argument == null ? "*" : (distinct ? "DISTINCT " : "") + argument;
      return function + "(" + operand + ")" + (filter == null ? "" : " FILTER (WHERE " + filter + ")");
    }
  }

  AggregateSpec {
    name = name == null ? "GroupAggregate" : name;
    keys = keys == null ? List.of() : List.copyOf(keys);
    aggregates = aggregates == null ? List.of() : List.copyOf(aggregates);
  }
}
