package io.tidemill.decode;

import java.io.Serializable;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.types.Decimal;

/**
 * Makes rows of documents that are just what their table says.
 *
 * <p>Law: where it gives rows, they are those that the format's Python decoder gives; of every other
 * document it says {@link Unsure}, and Python reads it. So all that a format has of leniency, repairs
 * and messages is in Python alone, and this is only the straight way, at the speed of the JVM. A
 * decoder belongs to one task.
 */
public abstract class Decoder {

  /**
   * How one side of a record is read.
   *
   * @param format json, csv, avro or raw
   * @param fields those that are wanted; csv and avro, which have no names in their documents, need
   *     all, and an unwanted one has no place
   * @param iso whether timestamps are written as in ISO 8601, with a T
   * @param texts whether numbers and booleans may be written as texts
   * @param envelope around the rows; null if a document is a row
   * @param csv how a line is written; null for other formats
   * @param lowFirst whether raw numbers have their lowest byte first
   */
  public record Spec(
      String format,
      List<Field> fields,
      boolean iso,
      boolean texts,
      Envelope envelope,
      CsvDecoder.Form csv,
      boolean lowFirst)
      implements Serializable {}

  /**
   * @param type the SQL type's name, without its parameters
   * @param at its place in the row; null if it is read over
   * @param precision of DECIMAL and of timestamps
   * @param fields of a ROW; of an ARRAY its element; of a MAP its key and its value
   * @param nullable whether avro writes it as a union with null; of what is in an ARRAY or a MAP, whether it may be NULL
   */
  public record Field(
      String name,
      String type,
      Integer at,
      int precision,
      int scale,
      List<Field> fields,
      boolean nullable)
      implements Serializable {

    /** Whether its place in a row holds the value itself. */
    boolean isFixed() {
      return switch (type) {
        case "STRING", "BYTES", "ROW", "ARRAY", "MAP" -> false;
        case "DECIMAL" -> precision <= Decimal.MAX_LONG_DIGITS();
        default -> true;
      };
    }

    /** Of its place in an array. */
    int size() {
      return switch (type) {
        case "BOOLEAN", "TINYINT" -> 1;
        case "SMALLINT" -> 2;
        case "INT", "DATE", "FLOAT" -> 4;
        default -> 8;
      };
    }
  }

  /**
   * The row before, the row after, and a word that tells what happened.
   *
   * @param before the name of the row before
   * @param after the name of the row after
   * @param completes whether the row before has only what was different
   * @param several whether the rows are in lists
   * @param deletesAfter whether a row that is gone is the one after
   * @param payload whether all this is in a field {@code payload}
   * @param kind the place of the row's kind in the rows
   * @param keys places of columns that tell rows apart: an update of one is counted, by Python
   */
  public record Envelope(
      String before,
      String after,
      boolean completes,
      boolean several,
      boolean deletesAfter,
      String word,
      List<String> inserts,
      String update,
      String delete,
      boolean payload,
      int kind,
      List<Integer> keys)
      implements Serializable {}

  public static Decoder of(Spec spec) {
    return switch (spec.format()) {
      case "json" -> spec.envelope() == null ? new JsonDecoder(spec) : new JsonEnvelope(spec);
      case "csv" -> new CsvDecoder(spec);
      case "avro" -> new AvroDecoder(spec);
      case "raw" -> new RawDecoder(spec);
      default -> throw new IllegalArgumentException("the kernel does not read " + spec.format());
    };
  }

  /**
   * Reads a document into one row or, of an update, two.
   *
   * @param rows have been reset
   * @return the rows: 1 the first, 2 the second, 3 both
   * @throws Unsure when Python has to read it; the rows are then to be reset
   */
  public abstract int read(byte[] in, int from, int to, UnsafeRowWriter[] rows);
}
