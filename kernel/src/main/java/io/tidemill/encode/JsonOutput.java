package io.tidemill.encode;

import com.fasterxml.jackson.core.io.NumberOutput;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.time.LocalDate;
import java.util.Arrays;
import java.util.Base64;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** A growing buffer, and values as Flink's json format writes them there: byte for byte what Jackson makes of them. */
final class JsonOutput {
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

  private static final long DAY = 86_400_000_000L;
  private static final int FIRST_DAY = (int) LocalDate.of(0, 1, 1).toEpochDay();
  private static final int LAST_DAY = (int) LocalDate.of(9999, 12, 31).toEpochDay();
  /** The first of March of the year 0, from where leap days come last in a year. */
  private static final int FIRST_OF_MARCH = 719_468;

  private static final int DAYS_OF_400_YEARS = 146_097;

  private byte[] buffer = new byte[256];
  private int size;

  static byte[] ascii(String text) {
    return text.getBytes(StandardCharsets.US_ASCII);
  }

  void reset() {
    size = 0;
  }

  byte[] toBytes() {
    return Arrays.copyOf(buffer, size);
  }

  void raw(byte[] bytes) {
    reserve(bytes.length);
    System.arraycopy(bytes, 0, buffer, size, bytes.length);
    size += bytes.length;
  }

  void raw(char sign) {
    reserve(1);
    buffer[size++] = (byte) sign;
  }

  /** A text of ASCII characters that need no escape. */
  @SuppressWarnings("deprecation")
  void raw(String text) {
    int length = text.length();
    reserve(length);
    // Cuts characters to bytes, which is all that there is to do.
    text.getBytes(0, length, buffer, size);
    size += length;
  }

  void number(long value) {
    if (value == Long.MIN_VALUE) {
      raw("-9223372036854775808");
      return;
    }
    reserve(20);
    long rest = value;
    if (rest < 0) {
      buffer[size++] = '-';
      rest = -rest;
    }
    int end = size + digits(rest);
    size = end;
    do {
      buffer[--end] = (byte) ('0' + rest % 10);
      rest /= 10;
    } while (rest != 0);
  }

  private static int digits(long value) {
    int digits = 1;
    for (long bound = 10; digits < 19 && value >= bound; bound *= 10) {
      digits++;
    }
    return digits;
  }

  /** The shortest digits that read back as the same number; what is no number in JSON is a text. */
  void number(double value) {
    approximate(NumberOutput.toString(value, true), Double.isFinite(value));
  }

  void number(float value) {
    approximate(NumberOutput.toString(value, true), Float.isFinite(value));
  }

  private void approximate(String text, boolean isNumber) {
    if (isNumber) {
      raw(text);
    } else {
      quoted(text);
    }
  }

  /** {@code plain}: all digits of its type, and no exponent. */
  void number(BigDecimal value, boolean plain) {
    if (plain) {
      raw(value.toPlainString());
    } else {
      raw(value.signum() == 0 ? "0" : value.stripTrailingZeros().toString());
    }
  }

  private void quoted(String text) {
    raw('"');
    raw(text);
    raw('"');
  }

  void base64(byte[] bytes) {
    raw('"');
    raw(Base64.getEncoder().encode(bytes));
    raw('"');
  }

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

  void date(int epochDay) {
    raw('"');
    day(epochDay);
    raw('"');
  }

  /** A time of day, of which milliseconds are written. */
  void time(long nanos) {
    raw('"');
    clock(nanos / 1_000_000, 3);
    raw('"');
  }

  /** {@code end}: what comes behind it. */
  void timestamp(long micros, char separator, String end) {
    raw('"');
    day((int) Math.floorDiv(micros, DAY));
    raw(separator);
    clock(Math.floorMod(micros, DAY), 6);
    raw(end);
    raw('"');
  }

  private void day(int epochDay) {
    if (epochDay < FIRST_DAY || epochDay > LAST_DAY) {
      raw(LocalDate.ofEpochDay(epochDay).toString());
      return;
    }
    int days = epochDay + FIRST_OF_MARCH;
    int era = Math.floorDiv(days, DAYS_OF_400_YEARS);
    int ofEra = days - era * DAYS_OF_400_YEARS;
    int yearOfEra = (ofEra - ofEra / 1460 + ofEra / 36_524 - ofEra / 146_096) / 365;
    int ofYear = ofEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100);
    int fromMarch = (5 * ofYear + 2) / 153;
    int month = fromMarch < 10 ? fromMarch + 3 : fromMarch - 9;
    padded(yearOfEra + era * 400 + (month <= 2 ? 1 : 0), 4);
    raw('-');
    padded(month, 2);
    raw('-');
    padded(ofYear - (153 * fromMarch + 2) / 5 + 1, 2);
  }

  /** Hours, minutes, seconds, and what is left of the fraction without idle zeros. */
  private void clock(long units, int digits) {
    int unit = digits == 3 ? 1_000 : 1_000_000;
    int seconds = (int) (units / unit);
    padded(seconds / 3600, 2);
    raw(':');
    padded(seconds / 60 % 60, 2);
    raw(':');
    padded(seconds % 60, 2);
    int fraction = (int) (units % unit);
    if (fraction != 0) {
      raw('.');
      padded(fraction, digits);
      while (buffer[size - 1] == '0') {
        size--;
      }
    }
  }

  private void padded(int value, int digits) {
    reserve(digits);
    int rest = value;
    for (int at = size + digits - 1; at >= size; at--) {
      buffer[at] = (byte) ('0' + rest % 10);
      rest /= 10;
    }
    size += digits;
  }

  private void reserve(int more) {
    if (size + more > buffer.length) {
      buffer = Arrays.copyOf(buffer, Math.max(size + more, 2 * buffer.length));
    }
  }
}
