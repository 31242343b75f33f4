package io.tidemill.functions;

import java.math.BigDecimal;
import java.math.RoundingMode;
import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.format.DateTimeFormatter;
import java.time.format.DateTimeFormatterBuilder;
import java.time.temporal.ChronoField;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Text that is cast to a value, by Flink's rules, which are looser than Spark's in some places and
 * stricter in others.
 *
 * <p>The last argument is the type's name for the complaint about a text that cannot be cast; where
 * it is NULL, as in TRY_CAST, such a text gives NULL.
 */
final class Casts {
  private static final Set<String> TRUE = Set.of("t", "true", "y", "yes", "1");
  private static final Set<String> FALSE = Set.of("f", "false", "n", "no", "0");
  /** Digits that a DECIMAL, and characters that its text may have to be read the short way. */
  private static final int SHORT = 18;

  private static final Pattern NUMBER =
      Pattern.compile(
          "[ \\n\\t]*(([+-]?)(\\d*\\.?\\d*)([eE][+-]?\\d*)?)(?:[\\x00-\\x7f&&[^\\d.]])?[ \\n\\t]*");
  private static final Pattern DATE =
      Pattern.compile("\\s*(\\d+)\\s*(?:-\\s*(\\d+)\\s*(?:-\\s*(\\d+)\\s*)?)?");
  private static final Pattern TIME =
      Pattern.compile(
          "\\s*(\\d+)\\s*(?::\\s*(\\d+)\\s*(?::\\s*(\\d+)\\s*(?:\\.([^+-]*))?)?)?"
              + "(?:([+-])\\s*(\\d+)\\s*(?::\\s*(\\d+)\\s*)?)?");
  private static final DateTimeFormatter TIMESTAMP =
      new DateTimeFormatterBuilder()
          .appendPattern("yyyy-[MM][M]-[dd][d]")
          .optionalStart()
          .appendPattern(" [HH][H]:[mm][m]:[ss][s]")
          .appendFraction(ChronoField.NANO_OF_SECOND, 0, 9, true)
          .optionalEnd()
          .toFormatter();

  private Casts() {}

  private static <T> T refuse(String text, String type) {
    if (type == null) {
      return null;
    }
    throw new IllegalArgumentException("cannot cast '" + text + "' to " + type);
  }

  /** Digits behind a point are read and dropped; blanks around the number too, no other space. */
  static Long integer(String text, Integer bits, String type) {
    if (text == null) {
      return null;
    }
    int at = 0;
    int end = text.length();
    while (at < end && text.charAt(at) == ' ') {
      at++;
    }
    while (end > at && text.charAt(end - 1) == ' ') {
      end--;
    }
    boolean negative = at < end && text.charAt(at) == '-';
    if (negative || at < end && text.charAt(at) == '+') {
      at++;
    }
    if (at == end) {
      return refuse(text, type);
    }
    // Counted downwards, because there is one negative number more.
    long least = Long.MIN_VALUE >> (64 - bits);
    long value = 0;
    for (; at < end && text.charAt(at) != '.'; at++) {
      int digit = text.charAt(at) - '0';
      if (digit < 0 || digit > 9 || value < least / 10) {
        return refuse(text, type);
      }
      value = value * 10 - digit;
      if (value > 0 || value < least) {
        return refuse(text, type);
      }
    }
    for (at++; at < end; at++) {
      if (text.charAt(at) < '0' || text.charAt(at) > '9') {
        return refuse(text, type);
      }
    }
    return negative ? (Long) value : value == least ? refuse(text, type) : (Long) (-value);
  }

  static Double doublePrecision(String text, String type) {
    try {
      return text == null ? null : (Double) Double.parseDouble(text);
    } catch (NumberFormatException noNumber) {
      return refuse(text, type);
    }
  }

  static Float singlePrecision(String text, String type) {
    try {
      return text == null ? null : (Float) Float.parseFloat(text);
    } catch (NumberFormatException noNumber) {
      return refuse(text, type);
    }
  }

  /** The number as plain digits, which Spark then casts: a function's type knows no precision. */
  static String decimal(String text, Integer precision, Integer scale, String type) {
    if (text == null) {
      return null;
    }
    boolean isShort = precision <= SHORT && text.getBytes(StandardCharsets.UTF_8).length <= SHORT;
    try {
      BigDecimal value = isShort ? shortDecimal(text) : new BigDecimal(trimmed(text));
      if (value == null || value.precision() - value.scale() > precision - scale) {
        boolean isZero = value != null && value.signum() == 0;
        return isZero ? "0" : refuse(text, type);
      }
      value = value.setScale(scale, RoundingMode.HALF_UP);
      return value.precision() > precision ? refuse(text, type) : value.toPlainString();
    } catch (NumberFormatException noNumber) {
      return refuse(text, type);
    }
  }

  /** Flink's short way: one character behind the number is overlooked, and no digit at all is 0. */
  private static BigDecimal shortDecimal(String text) {
    Matcher found = NUMBER.matcher(text);
    if (text.isBlank() || !found.matches() || found.group(1).matches("[+-]")) {
      return null;
    }
    String exponent = found.group(4) == null || found.group(4).length() == 1 ? "" : found.group(4);
    String digits = found.group(3);
    // Java wants a digit before or behind the point.
    String whole = digits.replace(".", "").isEmpty() ? "0" : digits;
    return new BigDecimal(found.group(2) + whole + exponent);
  }

  private static String trimmed(String text) {
    return text.replaceAll("^[ \\n\\t]+|[ \\n\\t]+$", "");
  }

  static String plain(BigDecimal number) {
    return number == null ? null : number.toPlainString();
  }

  static Boolean bool(String text, String type) {
    if (text == null) {
      return null;
    }
    String word = text.toLowerCase();
    return TRUE.contains(word)
        ? Boolean.TRUE
        : FALSE.contains(word) ? Boolean.FALSE : refuse(text, type);
  }

  /** Year, month and day, of which the last ones may be missing; a time of day is dropped. */
  static LocalDate date(String text, String type) {
    if (text == null) {
      return null;
    }
    int blank = text.indexOf(' ');
    Matcher found = DATE.matcher(blank > 0 ? text.substring(0, blank) : text);
    if (!found.matches()) {
      return refuse(text, type);
    }
    try {
      int year = Integer.parseInt(found.group(1));
      return year > 9999
          ? refuse(text, type)
          : LocalDate.of(year, part(found.group(2), 1), part(found.group(3), 1));
    } catch (DateTimeException | NumberFormatException outOfRange) {
      return refuse(text, type);
    }
  }

  private static int part(String digits, int otherwise) {
    return digits == null ? otherwise : Integer.parseInt(digits);
  }

  static LocalTime time(String text, Integer precision, String type) {
    if (text == null) {
      return null;
    }
    Matcher found = TIME.matcher(text);
    if (!found.matches()) {
      return refuse(text, type);
    }
    try {
      int nanos = Temporal.fraction(found.group(4), Math.min(precision, 3));
      LocalTime read =
          LocalTime.of(
              part(found.group(1), 0), part(found.group(2), 0), part(found.group(3), 0), nanos);
      int sign = "-".equals(found.group(5)) ? -1 : 1;
      return read.plusHours(sign * part(found.group(6), 0))
          .plusMinutes(sign * part(found.group(7), 0));
    } catch (DateTimeException | NumberFormatException outOfRange) {
      return refuse(text, type);
    }
  }

  static LocalDateTime timestamp(String text, Integer precision, String type) {
    if (text == null) {
      return null;
    }
    try {
      return Temporal.complete(TIMESTAMP.parse(text), precision);
    } catch (DateTimeException noTimestamp) {
      return refuse(text, type);
    }
  }
}
