package io.tidemill.encode;

import io.tidemill.encode.Writers.Writer;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** Lines of delimited texts. */
final class CsvEncoder extends Encoder {
  /**
   * @param delimiter between the columns; like the two that follow, an ASCII character
   * @param quote around texts; null if there is none
   * @param escape of itself, in quotes; null if there is none
   * @param nullLiteral what stands for NULL
   * @param elementDelimiter between the elements of an ARRAY and the fields of a ROW
   * @param plainDecimals whether DECIMAL is written with all its digits and without an exponent
   */
  record Form(
      char delimiter,
      Character quote,
      Character escape,
      String nullLiteral,
      String elementDelimiter,
      boolean plainDecimals)
      implements Serializable {}

  private final Form form;
  private final StructType row;

  private transient Writer[] writers;
  private transient CsvOutput out;
  private transient byte[] nothing;
  private transient byte[] between;

  CsvEncoder(List<DocumentSpec.Field> fields, Form form, StructType row) {
    super(fields);
    this.form = form;
    this.row = row;
    open(); // so that what cannot be written is refused here
  }

  private void open() {
    // Without quotes nothing is looked for.
    out = new CsvOutput(form.delimiter(), form.quote() == null ? '"' : form.quote(), form.escape());
    nothing = form.nullLiteral().getBytes(StandardCharsets.UTF_8);
    between = form.elementDelimiter().getBytes(StandardCharsets.UTF_8);
    writers = Arrays.stream(row.fields()).map(StructField::dataType).map(this::writer).toArray(Writer[]::new);
  }

  @Override
  byte[] write(InternalRow columns) {
    if (writers == null) {
      open();
    }
    out.reset();
    for (int i = 0; i < writers.length; i++) {
      if (i > 0) {
        out.raw(form.delimiter());
      }
      write(writers[i], columns, i);
    }
    return out.toBytes();
  }

  private void write(Writer writer, SpecializedGetters from, int at) {
    if (from.isNullAt(at)) {
      out.raw(nothing);
    } else {
      writer.write(from, at, out);
    }
  }

  /** Numbers and truths are never quoted. */
  private Writer writer(DataType type) {
    Writer plain = text(type);
    if (form.quote() == null || type instanceof NumericType || type instanceof BooleanType) {
      return plain;
    }
    return (from, at, to) -> {
      int start = to.size;
      plain.write(from, at, to);
      out.quote(start);
    };
  }

  private Writer text(DataType type) {
    if (type instanceof ArrayType array) {
      Writer element = plain(array.elementType());
      return (from, at, to) -> {
        ArrayData elements = from.getArray(at);
        for (int i = 0; i < elements.numElements(); i++) {
          part(element, elements, i);
        }
      };
    }
    if (type instanceof StructType row) {
      Writer[] fields =
          Arrays.stream(row.fields()).map(StructField::dataType).map(this::plain).toArray(Writer[]::new);
      return (from, at, to) -> {
        InternalRow inner = from.getStruct(at, fields.length);
        for (int i = 0; i < fields.length; i++) {
          part(fields[i], inner, i);
        }
      };
    }
    return plain(type);
  }

  private Writer plain(DataType type) {
    return Writers.of(type, ' ', form.plainDecimals());
  }

  private void part(Writer writer, SpecializedGetters from, int at) {
    if (at > 0) {
      out.raw(between);
    }
    write(writer, from, at);
  }
}
