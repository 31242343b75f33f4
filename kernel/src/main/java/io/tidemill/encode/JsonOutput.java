package io.tidemill.encode;

import java.util.Arrays;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** Values as Flink's json format writes them: what is no number, truth or null stands in quotes. */
final class JsonOutput extends TextOutput {
  private static final byte[] HEX = ascii("0123456789ABCDEF");
  /** Of which bytes of a text something else is written. */
  private static final boolean[] ESCAPED = new boolean[256];
  /** What is written for such a byte behind a backslash, or 0. */
  private static final byte[] SHORT = new byte[128];

  static {
    Arrays.fill(ESCAPED, 0, 0x20, true);
    ESCAPED['"'] = ESCAPED['\\'] = true;
    // Characters of four bytes: Jackson's writer of bytes makes two escapes of them.
    Arrays.fill(ESCAPED, 0xF0, 0xF8, true);
    String from = "\"\\\b\t\n\f\r";
    String to = "\"\\btnfr";
    for (int i = 0; i < from.length(); i++) {
      SHORT[from.charAt(i)] = (byte) to.charAt(i);
    }
  }

  /** What is no number in JSON is a text. */
  @Override
  void number(double value) {
    boolean isNumber = Double.isFinite(value);
    quote(isNumber);
    super.number(value);
    quote(isNumber);
  }

  @Override
  void number(float value) {
    boolean isNumber = Float.isFinite(value);
    quote(isNumber);
    super.number(value);
    quote(isNumber);
  }

  private void quote(boolean isBare) {
    if (!isBare) {
      raw('"');
    }
  }

  @Override
  void base64(byte[] bytes) {
    raw('"');
    super.base64(bytes);
    raw('"');
  }

  @Override
  void date(int epochDay) {
    raw('"');
    super.date(epochDay);
    raw('"');
  }

  @Override
  void time(long nanos) {
    raw('"');
    super.time(nanos);
    raw('"');
  }

  @Override
  void timestamp(long micros, char separator, String end) {
    raw('"');
    super.timestamp(micros, separator, end);
    raw('"');
  }

  @Override
  void text(UTF8String text) {
    Object base = text.getBaseObject();
    long from = text.getBaseOffset();
    int length = text.numBytes();
    reserve(length + 2);
    buffer[size++] = '"';
    int plain = 0;
    while (plain < length && !ESCAPED[Platform.getByte(base, from + plain) & 0xFF]) {
      plain++;
    }
    Platform.copyMemory(base, from, buffer, Platform.BYTE_ARRAY_OFFSET + size, plain);
    size += plain;
    for (int at = plain; at < length; ) {
      at += character(base, from + at, length - at);
    }
    raw('"');
  }

  /** Writes a character that may need an escape, or a byte of one that needs none; returns its bytes. */
  private int character(Object base, long at, int left) {
    int first = Platform.getByte(base, at) & 0xFF;
    reserve(12);
    if (!ESCAPED[first]) {
      buffer[size++] = (byte) first;
      return 1;
    }
    if (first < 0x80) {
      if (SHORT[first] != 0) {
        buffer[size++] = '\\';
        buffer[size++] = SHORT[first];
      } else {
        unit(first);
      }
      return 1;
    }
    if (left < 4) {
      // Half a character, which no text has.
      buffer[size++] = (byte) first;
      return 1;
    }
    int code = first & 0x07;
    for (int i = 1; i < 4; i++) {
      code = code << 6 | Platform.getByte(base, at + i) & 0x3F;
    }
    unit(Character.highSurrogate(code));
    unit(Character.lowSurrogate(code));
    return 4;
  }

  private void unit(int code) {
    buffer[size++] = '\\';
    buffer[size++] = 'u';
    for (int shift = 12; shift >= 0; shift -= 4) {
      buffer[size++] = HEX[code >> shift & 0xF];
    }
  }
}
