package io.tidemill.decode;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;

/**
 * Many documents in one call: a call from Python takes part of a millisecond, and an exception on the
 * way back several.
 */
public final class Documents {
  private static final int UNSURE = -1;

  /**
   * @param width of a row
   * @param documents each after its length
   * @return of each document the number of its rows or UNSURE, then each row after its length
   */
  public byte[] read(Decoder decoder, int width, byte[] documents) throws IOException {
    UnsafeRowWriter[] rows = {new UnsafeRowWriter(width, 64), new UnsafeRowWriter(width, 64)};
    DataInputStream in = new DataInputStream(new ByteArrayInputStream(documents));
    ByteArrayOutputStream found = new ByteArrayOutputStream();
    DataOutputStream out = new DataOutputStream(found);
    while (in.available() > 0) {
      byte[] document = in.readNBytes(in.readInt());
      for (UnsafeRowWriter row : rows) {
        row.reset();
        row.zeroOutNullBytes();
      }
      int kept;
      try {
        kept = decoder.read(document, 0, document.length, rows);
      } catch (Unsure e) {
        out.writeByte(UNSURE);
        continue;
      }
      out.writeByte(Integer.bitCount(kept));
      for (int i = 0; i < rows.length; i++) {
        if ((kept >> i & 1) == 1) {
          byte[] row = rows[i].getRow().getBytes();
          out.writeInt(row.length);
          out.write(row);
        }
      }
    }
    return found.toByteArray();
  }
}
