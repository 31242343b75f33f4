package io.tidemill.encode;

import java.io.Serializable;
import java.util.List;

/**
 * How rows become records.
 *
 * @param value the side that a record's value is
 * @param key the side that its key is; null if it has none
 * @param kind the column of the row kind; null if none goes, and no format tells it
 * @param goes the kinds of rows that are a record without a value
 * @param kept the columns that stay as they are
 */
record DocumentSpec(Side value, Side key, String kind, List<Integer> goes, List<String> kept) {
  /**
   * One side of a record: its fields, and the form of the one format that it has.
   *
   * @param tells whether the format tells the row kind
   */
  record Side(
      List<Field> fields, boolean tells, JsonEncoder.Form json, CsvEncoder.Form csv, RawEncoder.Form raw) {}

  /**
   * @param column where it is in the input; null inside of another field
   * @param name its name in the document
   * @param fields of a ROW
   * @param element of an ARRAY; of a MAP its value
   * @param missing what is said if it is NULL; null if it may be
   */
  record Field(String column, String name, List<Field> fields, Field element, Refusal missing)
      implements Serializable {}

  record Refusal(String code, String message, String hint) implements Serializable {}
}
