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
 * @param kept columns of the record that are columns of the row
 * @param nulls places that are NULL in every row
 * @param python what decodes the records that the kernel leaves, see {@link PythonDecoder}
 */
record Decoding(
    String schema,
    Decoder.Spec value,
    Decoder.Spec key,
    List<Kept> kept,
    List<Integer> nulls,
    String python)
    implements Serializable {

  record Kept(String column, int at) implements Serializable {}

  StructType type() {
    return (StructType) DataType.fromJson(schema);
  }
}
