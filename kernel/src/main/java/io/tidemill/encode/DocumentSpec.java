package io.tidemill.encode;

import java.io.Serializable;
import java.util.List;

/**
 * How rows become records.
 *
 * @param value the side that a record's value is
 * @param key the side that its key is; null if it has none
 * @param gone the column of the row kind, where a row that goes is a record without a value; null if none goes
 * @param goes the kinds of rows that go
 * @param kept the columns that stay as they are
 */
record DocumentSpec(Side value, Side key, String gone, List<Integer> goes, List<String> kept) {
  /**
   * One side of a record.
   *
   * @param iso whether times are written as ISO-8601 has them, with a T
   * @param plainDecimals whether DECIMAL is written with all its digits and without an exponent
   * @param ignoresNulls whether a field that is NULL is left out
   */
  record Side(List<Field> fields, boolean iso, boolean plainDecimals, boolean ignoresNulls)
      implements Serializable {}

  /**
   * @param column where it is in the input; null inside of another field
   * @param name its name in the document
   * @param fields of a ROW
   * @param element of an ARRAY
   * @param missing what is said if it is NULL; null if it may be
   */
  record Field(String column, String name, List<Field> fields, Field element, Refusal missing)
      implements Serializable {}

  record Refusal(String code, String message, String hint) implements Serializable {}
}
