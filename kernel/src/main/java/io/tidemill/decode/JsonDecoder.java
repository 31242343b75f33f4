package io.tidemill.decode;

import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;

/** A document is an object, and an object is a row. */
final class JsonDecoder extends Decoder {
  private final JsonText text;
  private final JsonRow row;

  JsonDecoder(Spec spec) {
    this.text = new JsonText(spec.texts());
    this.row = new JsonRow(spec.fields(), spec.iso());
  }

  @Override
  public int read(byte[] in, int from, int to, UnsafeRowWriter[] rows) {
    text.open(in, from, to);
    row.read(text, rows[0]);
    text.close();
    return 1;
  }
}
