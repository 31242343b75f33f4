package io.tidemill.encode;

import com.fasterxml.jackson.core.io.NumberOutput;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.time.LocalDate;
import java.util.Arrays;
import java.util.Base64;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** A growing buffer, and values as texts there: byte for byte what Java and Jackson make of them for Flink. */
class TextOutput {
  private static final byte[] TRUE = ascii("true");
  private static final byte[] FALSE = ascii("false");

  private static final long DAY = 86_400_000_000L;
  private static final int FIRST_DAY = (int) LocalDate.of(0, 1, 1).toEpochDay();
  private static final int LAST_DAY = (int) LocalDate.of(9999, 12, 31).toEpochDay();
  /** The first of March of the year 0, from where leap days come last in a year. */
  private static final int FIRST_OF_MARCH = 719_468;

  private static final int DAYS_OF_400_YEARS = 146_097;

  byte[] buffer = new byte[256];
  int size;

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

  /** The shortest digits that read back as the same number. */
  void number(double value) {
    raw(NumberOutput.toString(value, true));
  }

  void number(float value) {
    raw(NumberOutput.toString(value, true));
  }

  /** {@code plain}: all digits of its type, and no exponent. */
  void number(BigDecimal value, boolean plain) {
    if (plain) {
      raw(value.toPlainString());
    } else {
      raw(value.signum() == 0 ? "0" : value.stripTrailingZeros().toString());
    }
  }

  void bool(boolean value) {
    raw(value ? TRUE : FALSE);
  }

  void text(UTF8String text) {
    int length = text.numBytes();
    reserve(length);
    text.writeToMemory(buffer, Platform.BYTE_ARRAY_OFFSET + size);
    size += length;
  }

  void base64(byte[] bytes) {
    raw(Base64.getEncoder().encode(bytes));
  }

  void date(int epochDay) {
    day(epochDay);
  }

  /** A time of day, of which milliseconds are written. */
  void time(long nanos) {
    clock(nanos / 1_000_000, 3);
  }

  /** {@code end}: what comes behind it. */
  void timestamp(long micros, char separator, String end) {
    day((int) Math.floorDiv(micros, DAY));
    raw(separator);
    clock(Math.floorMod(micros, DAY), 6);
    raw(end);
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

  final void reserve(int more) {
    if (size + more > buffer.length) {
      buffer = Arrays.copyOf(buffer, Math.max(size + more, 2 * buffer.length));
    }
  }
}
