package io.tidemill.functions;

import java.sql.Timestamp;
import java.text.ParseException;
import java.text.SimpleDateFormat;
import java.time.DateTimeException;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.time.temporal.ChronoField;
import java.time.temporal.ChronoUnit;
import java.time.temporal.IsoFields;
import java.time.temporal.TemporalAccessor;
import java.util.Date;
import java.util.HashMap;
import java.util.Map;
import java.util.TimeZone;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.UnaryOperator;

/**
 * Dates and times as Flink reads, writes and counts them.
 *
 * <p>Flink has two families of patterns: those of java.time for TIMESTAMPs, those of {@link
 * SimpleDateFormat}, lenient and with the old calendar, for everything that begins or ends as text
 * or as seconds. Both are kept, with a cache of formatters.
 */
public final class Temporal {
  private static final int[] NANOS = {
    1_000_000_000, 100_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1_000, 100, 10, 1
  };
  private static final long FIRST_SECOND = -62_167_219_200L;
  private static final long LAST_SECOND = 253_402_300_799L;
  private static final Map<String, Long> MILLIS =
      Map.of(
          "WEEK", 604_800_000L,
          "DAY", 86_400_000L,
          "HOUR", 3_600_000L,
          "MINUTE", 60_000L,
          "SECOND", 1_000L);
  private static final Map<String, ChronoUnit> OF_DAY =
      Map.of(
          "DAY", ChronoUnit.DAYS,
          "HOUR", ChronoUnit.HOURS,
          "MINUTE", ChronoUnit.MINUTES,
          "SECOND", ChronoUnit.SECONDS,
          "MILLISECOND", ChronoUnit.MILLIS);
  private static final String PLAIN = "yyyy-MM-dd HH:mm:ss";
  private static final Map<String, DateTimeFormatter> FORMATTERS = new ConcurrentHashMap<>();
  // Not safe for several threads at once.
  private static final ThreadLocal<Map<String, SimpleDateFormat>> SIMPLE =
      ThreadLocal.withInitial(HashMap::new);

  private Temporal() {}

  /** Called by generated code: a TIMESTAMP, in microseconds, so many milliseconds later. */
  public static long plusMillis(long micros, long millis) {
    return micros + 1000 * millis;
  }

  private static DateTimeFormatter formatter(String pattern) {
    return FORMATTERS.computeIfAbsent(pattern, DateTimeFormatter::ofPattern);
  }

  private static SimpleDateFormat simple(String pattern, String zone) {
    SimpleDateFormat format = SIMPLE.get().computeIfAbsent(pattern, SimpleDateFormat::new);
    format.setTimeZone(TimeZone.getTimeZone(zone));
    return format;
  }

  // --- parts -----------------------------------------------------------------------------------

  /** What was read; a part that was not is that of 1970-01-01 00:00:00. */
  static LocalDateTime complete(TemporalAccessor read, int precision) {
    int nanos = part(read, ChronoField.NANO_OF_SECOND, 0);
    return LocalDateTime.of(
        part(read, ChronoField.YEAR, 1970),
        part(read, ChronoField.MONTH_OF_YEAR, 1),
        part(read, ChronoField.DAY_OF_MONTH, 1),
        part(read, ChronoField.HOUR_OF_DAY, 0),
        part(read, ChronoField.MINUTE_OF_HOUR, 0),
        part(read, ChronoField.SECOND_OF_MINUTE, 0),
        nanos - nanos % NANOS[precision]);
  }

  private static int part(TemporalAccessor read, ChronoField field, int otherwise) {
    return read.isSupported(field) ? read.get(field) : otherwise;
  }

  /** The digits behind a point as nanoseconds, cut at a precision. */
  static int fraction(String digits, int precision) {
    if (digits == null) {
      return 0;
    }
    int nanos = Integer.parseInt((digits.strip() + "000000000").substring(0, 9));
    return nanos - nanos % NANOS[precision];
  }

  // --- text ------------------------------------------------------------------------------------

  static String dateFormat(LocalDateTime time, String pattern) {
    return time == null || pattern == null ? null : formatter(pattern).format(time);
  }

  static String textFormat(String text, String pattern) {
    if (text == null || pattern == null) {
      return null;
    }
    try {
      Date read = simple(PLAIN, "UTC").parse(text);
      return simple(pattern, "UTC").format(read);
    } catch (ParseException unreadable) {
      return null;
    }
  }

  static String fromUnixtime(Long seconds, String pattern, String zone) {
    return seconds == null || pattern == null
        ? null
        : simple(pattern, zone).format(new Date(seconds * 1000));
  }

  /** Seconds since 1970; the smallest BIGINT for a text that cannot be read. */
  static Long unixTimestamp(String text, String pattern, String zone) {
    if (text == null || pattern == null) {
      return null;
    }
    try {
      return simple(pattern, zone).parse(text).getTime() / 1000;
    } catch (ParseException unreadable) {
      return Long.MIN_VALUE;
    }
  }

  static String convertTz(String text, String from, String to) {
    if (text == null || from == null || to == null) {
      return null;
    }
    try {
      Date read = simple(PLAIN, from).parse(text);
      return simple(PLAIN, to).format(read);
    } catch (ParseException unreadable) {
      return null;
    }
  }

  static LocalDate toDate(String text, String pattern) {
    if (text == null || pattern == null) {
      return null;
    }
    try {
      Instant read = simple(pattern, "UTC").parse(text).toInstant();
      return LocalDate.ofInstant(read, ZoneOffset.UTC);
    } catch (ParseException unreadable) {
      return null;
    }
  }

  /** A text that does not fit the pattern may still have the form of SQL. */
  static LocalDateTime toTimestamp(String text, String pattern) {
    if (text == null || pattern == null) {
      return null;
    }
    try {
      return complete(formatter(pattern).parse(text), 3);
    } catch (DateTimeException unreadable) {
      try {
        String plain = text.trim();
        return plain.indexOf(' ') >= 0
            ? Timestamp.valueOf(plain).toLocalDateTime()
            : java.sql.Date.valueOf(plain).toLocalDate().atStartOfDay();
      } catch (IllegalArgumentException noForm) {
        return null;
      }
    } catch (IllegalArgumentException badPattern) {
      return null;
    }
  }

  static Instant toTimestampLtz(String text, String pattern, String zone) {
    LocalDateTime read =
        pattern == null ? Casts.timestamp(text, 3, "TIMESTAMP_LTZ(3)") : toTimestamp(text, pattern);
    return read == null || zone == null ? null : read.atZone(ZoneId.of(zone)).toInstant();
  }

  static String dayTimeText(Long millis) {
    if (millis == null) {
      return null;
    }
    long size = Math.abs(millis);
    return String.format(
        "%s%d %02d:%02d:%02d.%03d",
        millis < 0 ? "-" : "+",
        size / 86_400_000,
        size / 3_600_000 % 24,
        size / 60_000 % 60,
        size / 1_000 % 60,
        size % 1_000);
  }

  static String yearMonthText(Integer months) {
    if (months == null) {
      return null;
    }
    int size = Math.abs(months);
    return String.format("%s%d-%02d", months < 0 ? "-" : "+", size / 12, size % 12);
  }

  static String timestampText(LocalDateTime time, Integer digits) {
    if (time == null) {
      return null;
    }
    String fraction = digits == 0 ? "" : "." + "S".repeat(digits);
    return formatter(PLAIN + fraction).format(time);
  }

  // --- arithmetic ------------------------------------------------------------------------------

  static LocalTime addToTime(LocalTime time, Long millis) {
    return time == null || millis == null ? null : time.plusNanos(millis * 1_000_000);
  }

  /** Months are added in UTC. */
  static Long addMonths(Long micros, Integer months) {
    if (micros == null || months == null) {
      return null;
    }
    long seconds = Math.floorDiv(micros, 1_000_000L);
    LocalDateTime moved =
        LocalDateTime.ofEpochSecond(seconds, 0, ZoneOffset.UTC).plusMonths(months);
    return moved.toEpochSecond(ZoneOffset.UTC) * 1_000_000 + Math.floorMod(micros, 1_000_000L);
  }

  static LocalDateTime truncateTimestamp(LocalDateTime time, Integer precision) {
    return time == null ? null : time.withNano(time.getNano() - time.getNano() % NANOS[precision]);
  }

  static Instant ofEpoch(Long number, Integer precision) {
    if (number == null || precision == null) {
      return null;
    }
    if (precision != 0 && precision != 3) {
      throw new IllegalArgumentException(
          "the precision of TO_TIMESTAMP_LTZ must be 0 or 3, but is " + precision);
    }
    long seconds = precision == 0 ? number : Math.floorDiv(number, 1000L);
    long nanos = precision == 0 ? 0 : Math.floorMod(number, 1000L) * 1_000_000;
    return seconds < FIRST_SECOND || seconds > LAST_SECOND
        ? null
        : Instant.ofEpochSecond(seconds, nanos);
  }

  static Integer timestampdiff(String unit, LocalDateTime from, LocalDateTime to) {
    if (from == null || to == null) {
      return null;
    }
    return switch (unit) {
      case "YEAR" -> months(from, to) / 12;
      case "QUARTER" -> months(from, to) / 3;
      case "MONTH" -> months(from, to);
      // Flink counts whole seconds here too.
      case "MILLISECOND" -> (int) (ChronoUnit.SECONDS.between(from, to) * 1000);
      default -> (int) (ChronoUnit.MILLIS.between(from, to) / MILLIS.get(unit));
    };
  }

  /** The end of a short month counts as the same day of a longer one. */
  private static int months(LocalDateTime from, LocalDateTime to) {
    LocalDate begin = from.toLocalDate();
    LocalDate end = to.toLocalDate();
    int count = end.isBefore(begin) ? -months(end, begin) : months(begin, end);
    boolean earlier = to.toLocalTime().isBefore(from.toLocalTime());
    return begin.plusMonths(count).equals(end) && earlier ? count - 1 : count;
  }

  private static int months(LocalDate begin, LocalDate end) {
    int count = (int) ChronoUnit.MONTHS.between(begin, end);
    return begin.plusMonths(count + 1).isAfter(end) ? count : count + 1;
  }

  static Long extract(String unit, LocalDateTime time) {
    if (time == null) {
      return null;
    }
    int year = time.getYear();
    return switch (unit) {
      case "MILLISECOND" -> (long) time.getNano() / 1_000_000;
      case "MICROSECOND" -> (long) time.getNano() / 1_000;
      case "NANOSECOND" -> (long) time.getNano();
      case "EPOCH" -> time.toEpochSecond(ZoneOffset.UTC);
      case "ISODOW" -> (long) time.getDayOfWeek().getValue();
      case "ISOYEAR" -> (long) time.get(IsoFields.WEEK_BASED_YEAR);
      case "DECADE" -> (long) year / 10;
      case "CENTURY" -> (long) (year + 99) / 100;
      case "MILLENNIUM" -> (long) (year + 999) / 1000;
      default -> throw new IllegalArgumentException(unit);
    };
  }

  static LocalDateTime floorTime(LocalDateTime time, String unit) {
    if (time == null) {
      return null;
    }
    ChronoUnit ofDay = OF_DAY.get(unit);
    return ofDay == null
        ? floorDate(time.toLocalDate(), unit).atStartOfDay()
        : time.truncatedTo(ofDay);
  }

  /** As in Flink, less than a millisecond is not rounded up, and from a week on no time of day. */
  static LocalDateTime ceilTime(LocalDateTime time, String unit) {
    if (time == null) {
      return null;
    }
    ChronoUnit ofDay = OF_DAY.get(unit);
    if (ofDay == null) {
      return ceilDate(time.toLocalDate(), unit).atStartOfDay();
    }
    LocalDateTime floor = time.truncatedTo(ofDay);
    return floor.equals(time.truncatedTo(ChronoUnit.MILLIS)) ? floor : floor.plus(1, ofDay);
  }

  static Long floorZoned(Long micros, String unit, String zone) {
    return rounded(micros, zone, wall -> floorTime(wall, unit));
  }

  static Long ceilZoned(Long micros, String unit, String zone) {
    return rounded(micros, zone, wall -> ceilTime(wall, unit));
  }

  /** As in Flink, the zone's offset is that of the time itself: a day of a change may be longer. */
  private static Long rounded(Long micros, String zone, UnaryOperator<LocalDateTime> round) {
    if (micros == null) {
      return null;
    }
    Instant time = Instant.EPOCH.plus(micros, ChronoUnit.MICROS);
    ZoneOffset offset = ZoneId.of(zone).getRules().getOffset(time);
    Instant found = round.apply(LocalDateTime.ofInstant(time, offset)).toInstant(offset);
    return found.getEpochSecond() * 1_000_000 + found.getNano() / 1_000;
  }

  /** A DATE comes in as days since 1970: Spark would make a java.sql.Date of it. */
  static LocalDate floorDays(Integer days, String unit) {
    return days == null ? null : floorDate(LocalDate.ofEpochDay(days), unit);
  }

  static LocalDate ceilDays(Integer days, String unit) {
    return days == null ? null : ceilDate(LocalDate.ofEpochDay(days), unit);
  }

  private static LocalDate floorDate(LocalDate date, String unit) {
    int year = date.getYear();
    return switch (unit) {
      case "MILLENNIUM" -> LocalDate.of((year + 999) / 1000 * 1000 - 999, 1, 1);
      case "CENTURY" -> LocalDate.of((year + 99) / 100 * 100 - 99, 1, 1);
      case "DECADE" -> LocalDate.of(year / 10 * 10, 1, 1);
      case "YEAR" -> LocalDate.of(year, 1, 1);
      case "QUARTER" -> LocalDate.of(year, (date.getMonthValue() - 1) / 3 * 3 + 1, 1);
      case "MONTH" -> date.withDayOfMonth(1);
      // A week begins on Sunday.
      case "WEEK" -> date.minusDays(date.getDayOfWeek().getValue() % 7);
      default -> date;
    };
  }

  private static LocalDate ceilDate(LocalDate date, String unit) {
    LocalDate floor = floorDate(date, unit);
    return switch (unit) {
      case "MILLENNIUM" -> floor.plusYears(1000);
      case "CENTURY" -> floor.plusYears(100);
      case "DECADE" -> floor.plusYears(10);
      // Flink: the day after, even though a DATE is whole.
      case "DAY" -> date.plusDays(1);
      default ->
          floor.equals(date)
              ? date
              : switch (unit) {
                case "YEAR" -> floor.plusYears(1);
                case "QUARTER" -> floor.plusMonths(3);
                case "MONTH" -> floor.plusMonths(1);
                default -> floor.plusDays(7);
              };
    };
  }
}
