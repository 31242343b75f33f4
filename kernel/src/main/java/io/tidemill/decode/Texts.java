package io.tidemill.decode;

/** Dates, times and UTF-8 in bytes; in one form each, and {@link Unsure} of every other. */
final class Texts {
  private static final int[] DAYS_OF_MONTH = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  private static final int DATE = "yyyy-MM-dd".length();
  private static final int SECONDS = "yyyy-MM-dd HH:mm:ss".length();
  private static final int MOST_DIGITS = 9;

  private Texts() {}

  /** Days since 1970 of a {@code yyyy-MM-dd}. */
  static int date(byte[] in, int from, int length) {
    if (length != DATE) {
      throw Unsure.UNSURE;
    }
    return days(in, from);
  }

  /**
   * Microseconds since 1970.
   *
   * @param separator between date and time
   * @param zoned whether there must be a Z in the end
   * @param coarse whether only milliseconds are kept
   */
  static long timestamp(
      byte[] in, int from, int length, char separator, boolean zoned, boolean coarse) {
    int end = from + length - (zoned ? 1 : 0);
    int i = from + SECONDS;
    if (end < i
        || zoned && in[end] != 'Z'
        || in[from + 10] != separator
        || in[from + 13] != ':'
        || in[from + 16] != ':') {
      throw Unsure.UNSURE;
    }
    int hour = two(in, from + 11);
    int minute = two(in, from + 14);
    int second = two(in, from + 17);
    if (hour > 23 || minute > 59 || second > 59) {
      throw Unsure.UNSURE;
    }
    int micros = 0;
    if (i < end) {
      int digits = end - i - 1;
      if (in[i] != '.' || digits == 0 || digits > MOST_DIGITS) {
        throw Unsure.UNSURE;
      }
      for (int k = 1; k <= 6; k++) {
        micros = micros * 10 + (k <= digits ? digit(in[i + k]) : 0);
      }
      for (int k = 7; k <= digits; k++) {
        digit(in[i + k]);
      }
      if (coarse) {
        micros -= micros % 1000;
      }
    }
    long seconds = days(in, from) * 86400L + hour * 3600L + minute * 60L + second;
    return seconds * 1_000_000 + micros;
  }

  private static int days(byte[] in, int from) {
    int year = two(in, from) * 100 + two(in, from + 2);
    int month = two(in, from + 5);
    int day = two(in, from + 8);
    if (in[from + 4] != '-' || in[from + 7] != '-' || year < 1 || month < 1 || month > 12 || day < 1) {
      throw Unsure.UNSURE;
    }
    boolean leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (day > DAYS_OF_MONTH[month - 1] + (leap && month == 2 ? 1 : 0)) {
      throw Unsure.UNSURE;
    }
    // Years that begin in March have their leap day in the end.
    int shifted = month > 2 ? year : year - 1;
    int dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int days = 365 * shifted + shifted / 4 - shifted / 100 + shifted / 400 + dayOfYear;
    return days - 719468;
  }

  private static int two(byte[] in, int at) {
    return digit(in[at]) * 10 + digit(in[at + 1]);
  }

  private static int digit(byte b) {
    int digit = b - '0';
    if (digit < 0 || digit > 9) {
      throw Unsure.UNSURE;
    }
    return digit;
  }

  static void checkUtf8(byte[] in, int from, int length) {
    int i = from;
    int end = from + length;
    while (i < end) {
      int b = in[i++];
      if (b >= 0) {
        continue;
      }
      int more = b >> 5 == -2 ? 1 : b >> 4 == -2 ? 2 : b >> 3 == -2 ? 3 : 0;
      if (more == 0 || i + more > end) {
        throw Unsure.UNSURE;
      }
      int point = b & (0x3f >> more);
      for (int k = 0; k < more; k++) {
        int next = in[i++];
        if (next >> 6 != -2) {
          throw Unsure.UNSURE;
        }
        point = point << 6 | next & 0x3f;
      }
      boolean shortest = more == 1 ? point >= 0x80 : more == 2 ? point >= 0x800 : point >= 0x10000;
      if (!shortest || point > 0x10ffff || point >= 0xd800 && point < 0xe000) {
        throw Unsure.UNSURE;
      }
    }
  }
}
