package io.tidemill.kafka;

import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;

/**
 * Takes the records that could not be read out of a stream and writes them to a topic. They leave in the task that has
 * read the records: a second branch of the query would read and decode every topic twice.
 */
public final class DeadLetters {
  private static final String COLUMN = "_bad";

  private DeadLetters() {}

  /**
   * The rows whose column {@code _bad} is NULL, without it; the others are dead letters.
   *
   * @param spec the table and its dead-letter topic, in the form of a write to one sink
   */
  public static Dataset<Row> divert(Dataset<Row> rows, String spec) {
    Divert divert = new Divert(LetterBox.of(spec));
    // Not deterministic: Spark must neither repeat it nor move a filter past it.
    var isRow = functions.udf(divert, DataTypes.BooleanType).asNondeterministic();
    return rows.filter(isRow.apply(functions.col(COLUMN))).drop(COLUMN);
  }

  /** Every task has a copy of its own. */
  private static final class Divert implements UDF1<Row, Boolean> {
    private final LetterBox box;

    Divert(LetterBox box) {
      this.box = box;
    }

    @Override
    public Boolean call(Row bad) {
      if (bad == null) {
        return true;
      }
      List<Header> headers = new ArrayList<>();
      for (Row header : bad.<Row>getList(2)) {
        headers.add(new RecordHeader(header.getString(0), header.<byte[]>getAs(1)));
      }
      box.send(bad.<byte[]>getAs(0), bad.<byte[]>getAs(1), headers);
      return false;
    }
  }
}
