package io.tidemill.state;

import java.io.Serializable;
import java.util.List;
import java.util.Map;

/**
 * What an operator is told that watermarks pass through, or that looks at a clock.
 *
 * @param channel its own name, for those who come after
 * @param tasks how many tasks it has
 * @param letters what becomes of rows that come too late; null if they are just dropped
 */
record TimeSpec(String channel, int tasks, Letters letters) implements Serializable {
  /** Whether an operator that is told this, or null, has letters to send. */
  static boolean hasLetters(TimeSpec clock) {
    return clock != null && clock.letters != null;
  }

  /**
   * Late rows as dead letters. Rows have a column {@link LateRows#PLACE} then.
   *
   * @param sink where they go, in the form of a write to one sink
   * @param operator how a letter calls the operator
   * @param columns for each of its inputs, the columns that a letter shows, with the names that it gives them
   */
  record Letters(String sink, String operator, List<Map<String, String>> columns) implements Serializable {}
}
