package io.tidemill.encode;

import io.tidemill.Fault;
import java.io.Serializable;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimeType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;

/** Rows of one side of a record as JSON documents. Used by one task at a time. */
public final class JsonEncoder implements Serializable {
  private static final byte[] NULL = JsonOutput.ascii("null");
  private static final byte[] TRUE = JsonOutput.ascii("true");
  private static final byte[] FALSE = JsonOutput.ascii("false");

  private final DocumentSpec.Side side;
  private final StructType row;
  // Made again where a task runs.
  private transient Members members;
  private transient JsonOutput out;

  JsonEncoder(DocumentSpec.Side side, StructType row) {
    this.side = side;
    this.row = row;
    members(); // so that what cannot be written is refused here
  }

  /** Called by generated code. */
  public byte[] encode(InternalRow columns) {
    Members all = members();
    out.reset();
    all.write(columns, out);
    return out.toBytes();
  }

  private Members members() {
    if (members == null) {
      members = new Members(side.fields(), row);
      out = new JsonOutput();
    }
    return members;
  }

  /** Writes what stands at a place of a row or an array, which is not NULL. */
  private interface Writer {
    void write(SpecializedGetters from, int at, JsonOutput out);
  }

  /** The members of an object: the fields of a row, in their order. */
  private final class Members {
    private final DocumentSpec.Field[] fields;
    private final byte[][] labels;
    private final Writer[] writers;

    Members(List<DocumentSpec.Field> fields, StructType row) {
      this.fields = fields.toArray(DocumentSpec.Field[]::new);
      labels = new byte[this.fields.length][];
      writers = new Writer[this.fields.length];
      for (int i = 0; i < writers.length; i++) {
        JsonOutput label = new JsonOutput();
        label.text(UTF8String.fromString(this.fields[i].name()));
        label.raw(':');
        labels[i] = label.toBytes();
        writers[i] = writer(this.fields[i], row.apply(i).dataType());
      }
    }

    void write(SpecializedGetters from, JsonOutput out) {
      char before = '{';
      for (int i = 0; i < writers.length; i++) {
        boolean isNull = from.isNullAt(i);
        if (isNull) {
          DocumentSpec.Refusal missing = fields[i].missing();
          if (missing != null) {
            throw new Fault(missing.code(), missing.message(), missing.hint());
          }
          if (side.ignoresNulls()) {
            continue;
          }
        }
        out.raw(before);
        before = ',';
        out.raw(labels[i]);
        if (isNull) {
          out.raw(NULL);
        } else {
          writers[i].write(from, i, out);
        }
      }
      if (before == '{') {
        out.raw('{');
      }
      out.raw('}');
    }
  }

  private Writer writer(DocumentSpec.Field field, DataType type) {
    char separator = side.iso() ? 'T' : ' ';
    if (type instanceof StringType) {
      return (from, at, to) -> to.text(from.getUTF8String(at));
    } else if (type instanceof LongType) {
      return (from, at, to) -> to.number(from.getLong(at));
    } else if (type instanceof IntegerType) {
      return (from, at, to) -> to.number(from.getInt(at));
    } else if (type instanceof ShortType) {
      return (from, at, to) -> to.number(from.getShort(at));
    } else if (type instanceof ByteType) {
      return (from, at, to) -> to.number(from.getByte(at));
    } else if (type instanceof DoubleType) {
      return (from, at, to) -> to.number(from.getDouble(at));
    } else if (type instanceof FloatType) {
      return (from, at, to) -> to.number(from.getFloat(at));
    } else if (type instanceof BooleanType) {
      return (from, at, to) -> to.raw(from.getBoolean(at) ? TRUE : FALSE);
    } else if (type instanceof DecimalType decimal) {
      int precision = decimal.precision();
      int scale = decimal.scale();
      boolean plain = side.plainDecimals();
      return (from, at, to) -> to.number(from.getDecimal(at, precision, scale).toJavaBigDecimal(), plain);
    } else if (type instanceof DateType) {
      return (from, at, to) -> to.date(from.getInt(at));
    } else if (type instanceof TimeType) {
      return (from, at, to) -> to.time(from.getLong(at));
    } else if (type instanceof TimestampNTZType) {
      return (from, at, to) -> to.timestamp(from.getLong(at), separator, "");
    } else if (type instanceof TimestampType) {
      return (from, at, to) -> to.timestamp(from.getLong(at), separator, "Z");
    } else if (type instanceof BinaryType) {
      return (from, at, to) -> to.base64(from.getBinary(at));
    } else if (type instanceof StructType row) {
      Members inner = new Members(field.fields(), row);
      return (from, at, to) -> inner.write(from.getStruct(at, row.size()), to);
    } else if (type instanceof ArrayType array) {
      Writer element = writer(field.element(), array.elementType());
      return (from, at, to) -> elements(from.getArray(at), element, to);
    }
    throw new IllegalArgumentException(field.name() + ": " + type.simpleString() + " is not written here");
  }

  private static void elements(ArrayData array, Writer element, JsonOutput out) {
    out.raw('[');
    for (int i = 0; i < array.numElements(); i++) {
      if (i > 0) {
        out.raw(',');
      }
      if (array.isNullAt(i)) {
        out.raw(NULL);
      } else {
        element.write(array, i, out);
      }
    }
    out.raw(']');
  }
}
