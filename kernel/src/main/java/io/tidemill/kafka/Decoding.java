package io.tidemill.kafka;

import io.tidemill.decode.Decoder;
import java.io.Serializable;
import java.util.List;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * How a scan makes rows of records by itself.
 *
 * @param schema of the rows, as Spark's JSON
 * @param key null if no column comes from the key
 * @param upsert how a record without a value is a delete; null if it is none
 * @param kept columns of the record that are columns of the row
 * @param nulls places that are NULL in every row
 * @param python what decodes the records that the kernel leaves, see {@link PythonDecoder}
 */
record Decoding(
    String schema,
    Decoder.Spec value,
    Decoder.Spec key,
    Upsert upsert,
    List<Kept> kept,
    List<Integer> nulls,
    String python)
    implements Serializable {

  /**
   * @param kind the place of a row's kind, which its record tells
   * @param values places that are NULL in a delete: the columns that are not the key's
   * @param shared whether the key's columns are in the value too, which then tells them
   */
  record Upsert(int kind, List<Integer> values, boolean shared) implements Serializable {}

  record Kept(String column, int at) implements Serializable {}

  StructType type() {
    return (StructType) DataType.fromJson(schema);
  }
}
