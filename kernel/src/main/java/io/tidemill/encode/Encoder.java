package io.tidemill.encode;

import io.tidemill.Fault;
import java.io.Serializable;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;

/**
 * Rows of one side of a record as documents: byte for byte what the format's Python encoder makes of them.
 *
 * <p>Used by one task at a time; what it works with is made again where a task runs.
 */
public abstract class Encoder implements Serializable {
  private final DocumentSpec.Field[] fields;

  Encoder(List<DocumentSpec.Field> fields) {
    this.fields = fields.toArray(DocumentSpec.Field[]::new);
  }

  /** {@code row}: the types of the fields, and of the row kind behind them where the format tells it. */
  static Encoder of(DocumentSpec.Side side, StructType row) {
    if (side.json() != null) {
      return new JsonEncoder(side.fields(), side.json(), row);
    }
    if (side.csv() != null) {
      return new CsvEncoder(side.fields(), side.csv(), row);
    }
    return new RawEncoder(side.fields(), side.raw(), row);
  }

  /** Called by generated code. */
  public final byte[] encode(InternalRow row) {
    for (int i = 0; i < fields.length; i++) {
      DocumentSpec.Refusal missing = fields[i].missing();
      if (missing != null && row.isNullAt(i)) {
        throw new Fault(missing.code(), missing.message(), missing.hint());
      }
    }
    return write(row);
  }

  /** The document, or null if there is none. */
  abstract byte[] write(InternalRow row);

  /** Whether there may be no document. */
  boolean mayBeNull() {
    return false;
  }
}
