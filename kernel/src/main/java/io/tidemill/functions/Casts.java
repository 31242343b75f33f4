package io.tidemill.functions;

import java.math.BigDecimal;
import java.math.RoundingMode;
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
  private static final Pattern WHOLE = Pattern.compile("([+-]?\\d*)(?:\\.\\d*)?");
  private static final Pattern DATE =
      Pattern.compile("\\s*(\\d+)\\s*(?:-\\s*(\\d+)\\s*(?:-\\s*(\\d+)\\s*)?)?");
  private static final Pattern TIME =
      Pattern.compile(
          "\\s*(\\d+)\\s*(?::\\s*(\\d+)\\s*(?::\\s*(\\d+)\\s*(?:\\.([^+-]*))?)?)?(?:([+-])(.*))?");
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

  /** Digits behind a point are read and dropped. */
  static Long integer(String text, Integer bits, String type) {
    if (text == null) {
      return null;
    }
    Matcher found = WHOLE.matcher(text.strip());
    if (!found.matches()) {
      return refuse(text, type);
    }
    try {
      long value = found.group(1).isEmpty() ? 0 : Long.parseLong(found.group(1));
      boolean fits = value == value << (64 - bits) >> (64 - bits);
      return fits ? (Long) value : refuse(text, type);
    } catch (NumberFormatException tooLarge) {
      return refuse(text, type);
    }
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
    try {
      BigDecimal value = new BigDecimal(text.strip());
      // A number of absurd length is not even written out.
      if (value.precision() - value.scale() > precision - scale) {
        return value.signum() == 0 ? "0" : refuse(text, type);
      }
      value = value.setScale(scale, RoundingMode.HALF_UP);
      return value.precision() > precision ? refuse(text, type) : value.toPlainString();
    } catch (NumberFormatException noNumber) {
      return refuse(text, type);
    }
  }

  static Boolean bool(String text, String type) {
    if (text == null) {
      return null;
    }
    String word = text.strip().toLowerCase();
    return TRUE.contains(word)
        ? Boolean.TRUE
        : FALSE.contains(word) ? Boolean.FALSE : refuse(text, type);
  }

  /** Year, month and day, of which the last ones may be missing; a time of day behind is dropped. */
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
      return LocalTime.of(
          part(found.group(1), 0), part(found.group(2), 0), part(found.group(3), 0), nanos);
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
