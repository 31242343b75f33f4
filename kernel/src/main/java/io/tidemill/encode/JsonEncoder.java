package io.tidemill.encode;

import io.tidemill.encode.Writers.Writer;
import java.io.Serializable;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** JSON documents: objects of a row's fields, as they are or in the envelope of a format that tells changes. */
final class JsonEncoder extends Encoder {
  private static final byte[] NULL = TextOutput.ascii("null");

  /**
   * @param iso whether times are written as ISO-8601 has them, with a T
   * @param plainDecimals whether DECIMAL is written with all its digits and without an exponent
   * @param ignoresNulls whether a field that is NULL is left out
   * @param changes what is written around a row; null if it is the document
   */
  record Form(boolean iso, boolean plainDecimals, boolean ignoresNulls, Changes changes)
      implements Serializable {}

  /**
   * @param there what is written before and behind a row that is there
   * @param gone and one that is gone
   * @param goes the kinds of rows that are gone
   */
  record Changes(List<String> there, List<String> gone, List<Integer> goes)
      implements Serializable {}

  private final List<DocumentSpec.Field> fields;
  private final Form form;
  private final StructType row;

  private transient Members members;
  private transient JsonOutput out;
  /** By row kind. */
  private transient byte[][] openings;

  private transient byte[][] closings;

  JsonEncoder(List<DocumentSpec.Field> fields, Form form, StructType row) {
    super(fields);
    this.fields = fields;
    this.form = form;
    this.row = row;
    open(); // so that what cannot be written is refused here
  }

  private void open() {
    out = new JsonOutput();
    members = new Members(fields, row);
    Changes changes = form.changes();
    if (changes != null) {
      openings = new byte[4][];
      closings = new byte[4][];
      for (int kind = 0; kind < 4; kind++) {
        List<String> around = changes.goes().contains(kind) ? changes.gone() : changes.there();
        openings[kind] = TextOutput.ascii(around.get(0));
        closings[kind] = TextOutput.ascii(around.get(1));
      }
    }
  }

  @Override
  byte[] write(InternalRow columns) {
    if (members == null) {
      open();
    }
    out.reset();
    if (form.changes() == null) {
      members.write(columns, out);
    } else {
      // Where no kinds are told, all rows are there.
      int kind = row.size() > fields.size() ? columns.getByte(fields.size()) : 0;
      out.raw(openings[kind]);
      members.write(columns, out);
      out.raw(closings[kind]);
    }
    return out.toBytes();
  }

  /** The members of an object: the fields of a row, in their order. */
  private final class Members {
    private final byte[][] labels;
    private final Writer[] writers;

    Members(List<DocumentSpec.Field> fields, StructType row) {
      labels = new byte[fields.size()][];
      writers = new Writer[fields.size()];
      for (int i = 0; i < writers.length; i++) {
        JsonOutput label = new JsonOutput();
        label.text(UTF8String.fromString(fields.get(i).name()));
        label.raw(':');
        labels[i] = label.toBytes();
        writers[i] = writer(fields.get(i), row.apply(i).dataType());
      }
    }

    void write(SpecializedGetters from, TextOutput out) {
      char before = '{';
      for (int i = 0; i < writers.length; i++) {
        boolean isNull = from.isNullAt(i);
        if (isNull && form.ignoresNulls()) {
          continue;
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
    if (type instanceof StructType row) {
      Members inner = new Members(field.fields(), row);
      return (from, at, to) -> inner.write(from.getStruct(at, row.size()), to);
    }
    if (type instanceof ArrayType array) {
      Writer element = writer(field.element(), array.elementType());
      return (from, at, to) -> elements(from.getArray(at), element, to);
    }
    if (type instanceof MapType map) {
      Writer value = writer(field.element(), map.valueType());
      return (from, at, to) -> entries(from.getMap(at), value, to);
    }
    return Writers.of(type, form.iso() ? 'T' : ' ', form.plainDecimals());
  }

  private static void elements(ArrayData array, Writer element, TextOutput out) {
    out.raw('[');
    for (int i = 0; i < array.numElements(); i++) {
      if (i > 0) {
        out.raw(',');
      }
      element(array, i, element, out);
    }
    out.raw(']');
  }

  /** Keys are texts, and a map of Spark's has no NULL among them. */
  private static void entries(MapData map, Writer value, TextOutput out) {
    ArrayData keys = map.keyArray();
    ArrayData values = map.valueArray();
    out.raw('{');
    for (int i = 0; i < keys.numElements(); i++) {
      if (i > 0) {
        out.raw(',');
      }
      out.text(keys.getUTF8String(i));
      out.raw(':');
      element(values, i, value, out);
    }
    out.raw('}');
  }

  private static void element(ArrayData array, int i, Writer writer, TextOutput out) {
    if (array.isNullAt(i)) {
      out.raw(NULL);
    } else {
      writer.write(array, i, out);
    }
  }
}
