package io.tidemill.encode;

import java.util.Arrays;

/** Values as Flink's csv format writes them; what Jackson would put in quotes gets them when it has been written. */
final class CsvOutput extends TextOutput {
  /** A longer text Jackson quotes without looking at it. */
  private static final int LOOKED_AT = 24;

  private final byte quote;
  /** Which ASCII characters make a text one for quotes, and which are written twice there. */
  private final boolean[] special = new boolean[128];

  private final boolean[] doubled = new boolean[128];

  /** {@code escape}: null if there is none. */
  CsvOutput(char delimiter, char quote, Character escape) {
    this.quote = (byte) quote;
    // Jackson's loose test: a character up to the greater of delimiter and quote might be special.
    Arrays.fill(special, 0, Math.max(delimiter, quote) + 1, true);
    special[escape == null ? '\\' : escape] = true;
    doubled[quote] = true;
    if (escape != null) {
      doubled[escape] = true;
    }
  }

  /** Puts what was written from here on in quotes if it needs them. */
  void quote(int start) {
    boolean needed = size - start > LOOKED_AT && isLong(start);
    int more = 2;
    for (int i = start; i < size; i++) {
      byte sign = buffer[i];
      if (sign >= 0) {
        needed |= special[sign];
        more += doubled[sign] ? 1 : 0;
      }
    }
    if (!needed) {
      return;
    }
    reserve(more);
    int from = size - 1;
    size += more;
    int to = size;
    buffer[--to] = quote;
    for (; from >= start; from--) {
      byte sign = buffer[from];
      buffer[--to] = sign;
      if (sign >= 0 && doubled[sign]) {
        buffer[--to] = sign;
      }
    }
    buffer[start] = quote;
  }

  /** Counted in Java's chars, of which a character of four bytes has two. */
  private boolean isLong(int start) {
    int chars = 0;
    for (int i = start; i < size; i++) {
      int sign = buffer[i] & 0xFF;
      chars += sign >= 0xF0 ? 2 : sign < 0x80 || sign >= 0xC0 ? 1 : 0;
    }
    return chars > LOOKED_AT;
  }
}
