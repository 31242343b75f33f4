package io.tidemill.functions;

import java.util.Formatter;
import java.util.HashMap;
import java.util.IllegalFormatException;
import java.util.Locale;
import java.util.Map;
import org.apache.commons.lang3.StringUtils;
import org.apache.spark.sql.Row;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Text as Flink cuts and joins it.
 *
 * <p>Some of Flink's functions count characters (code points), others Java's chars, of which a
 * letter outside of the basic plane has two; each method says which.
 */
public final class Text {
  private Text() {}

  private static final long HIGH_BITS = 0x8080808080808080L;

  /** In characters. Spark counts byte by byte; of a text in ASCII, which is seen in words, there is nothing to count. */
  public static int charLength(UTF8String text) {
    int length = text.numBytes();
    Object base = text.getBaseObject();
    long at = text.getBaseOffset();
    long end = at + length;
    long high = 0;
    for (; at + 8 <= end; at += 8) {
      high |= Platform.getLong(base, at);
    }
    for (; at < end; at++) {
      high |= Platform.getByte(base, at);
    }
    return (high & HIGH_BITS) == 0 ? length : text.numChars();
  }

  /** The first byte of the UTF-8 form, signed. */
  static Integer ascii(String text) {
    if (text == null || text.isEmpty()) {
      return text == null ? null : 0;
    }
    int first = text.codePointAt(0);
    if (first < 0x80) {
      return first;
    }
    int lead =
        first < 0x800
            ? 0xC0 | first >> 6
            : first < 0x10000 ? 0xE0 | first >> 12 : 0xF0 | first >> 18;
    return (int) (byte) lead;
  }

  /** Only ASCII letters change, and only they and digits make a word. */
  static String initcap(String text) {
    if (text == null) {
      return null;
    }
    StringBuilder made = new StringBuilder(text.length());
    boolean inside = false;
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      boolean small = c >= 'a' && c <= 'z';
      boolean large = c >= 'A' && c <= 'Z';
      made.append(small && !inside ? (char) (c - 32) : large && inside ? (char) (c + 32) : c);
      inside = small || large || c >= '0' && c <= '9';
    }
    return made.toString();
  }

  /** In characters. A negative start counts from the end, and there is nothing before the first. */
  static String substring(String text, Integer start, Integer length) {
    if (text == null || start == null || length == null || length < 0) {
      return null;
    }
    int count = text.codePointCount(0, text.length());
    long from = start > 0 ? start - 1L : start < 0 ? (long) count + start : 0;
    if (from < 0 || from >= count) {
      return "";
    }
    int begin = text.offsetByCodePoints(0, (int) from);
    int size = (int) Math.min(length, count - from);
    return text.substring(begin, text.offsetByCodePoints(begin, size));
  }

  /** In chars. */
  static String lpad(String text, Integer length, String pad) {
    String fill = padding(text, length, pad);
    return fill == null ? null : fill.concat(text.substring(0, Math.min(length, text.length())));
  }

  /** In chars. */
  static String rpad(String text, Integer length, String pad) {
    String fill = padding(text, length, pad);
    return fill == null ? null : text.substring(0, Math.min(length, text.length())).concat(fill);
  }

  private static String padding(String text, Integer length, String pad) {
    if (text == null || length == null || pad == null || length < 0 || pad.isEmpty()) {
      return null;
    }
    int missing = Math.max(0, length - text.length());
    return pad.repeat(missing / pad.length()) + pad.substring(0, missing % pad.length());
  }

  /** An empty search finds the place before each char. */
  static String replace(String text, String search, String by) {
    return text == null || search == null || by == null ? null : text.replace(search, by);
  }

  /** In chars. What lies behind the replaced part is kept only if that part has a length. */
  static String overlay(String text, String by, Integer start, Integer length) {
    if (text == null || by == null || start == null || length == null) {
      return null;
    }
    if (start <= 0 || start > text.length()) {
      return text;
    }
    long rest = start - 1L + length;
    boolean kept = length > 0 && rest < text.length();
    return text.substring(0, start - 1) + by + (kept ? text.substring((int) rest) : "");
  }

  /** In characters, from 1; 0 if it is not found. */
  static Integer locate(String search, String text, Integer start) {
    if (search == null || text == null || start == null) {
      return null;
    }
    if (search.isEmpty()) {
      return 1;
    }
    int from = Math.max(0, start - 1);
    if (from > text.codePointCount(0, text.length())) {
      return 0;
    }
    int found = text.indexOf(search, text.offsetByCodePoints(0, from));
    return found < 0 ? 0 : text.codePointCount(0, found) + 1;
  }

  /** In characters, from 1; 0 if it is not found. A negative start is where a find may end at last. */
  static Integer instr(String text, String search, Integer start, Integer nth) {
    if (text == null || search == null || start == null || nth == null) {
      return null;
    }
    if (nth <= 0) {
      throw new IllegalArgumentException("the fourth argument of INSTR must be positive");
    }
    int count = text.codePointCount(0, text.length());
    if (start == 0 || search.isEmpty()) {
      return start == 0 ? 0 : 1;
    }
    if (start > count || start < -count) {
      return 0;
    }
    int at =
        start > 0
            ? text.offsetByCodePoints(0, start - 1) - 1
            : text.offsetByCodePoints(0, count + start + 1) - search.length() + 1;
    for (int i = 0; i < nth; i++) {
      at = start > 0 ? text.indexOf(search, at + 1) : text.lastIndexOf(search, at - 1);
      if (at < 0) {
        return 0;
      }
    }
    return text.codePointCount(0, at) + 1;
  }

  static String[] split(String text, String delimiter) {
    if (text == null || delimiter == null) {
      return null;
    }
    return text.isEmpty()
        ? new String[0]
        : delimiter.isEmpty()
            ? text.split("")
            : StringUtils.splitByWholeSeparatorPreserveAllTokens(text, delimiter);
  }

  /** An empty separator stands for white space. */
  static String splitIndex(String text, String separator, Integer index) {
    if (text == null || separator == null || index == null || index < 0) {
      return null;
    }
    String[] parts = StringUtils.splitByWholeSeparatorPreserveAllTokens(text, separator);
    return index < parts.length ? parts[index] : null;
  }

  /** The separator is the char of a code between 1 and 255. */
  static String splitIndexByCode(String text, Integer code, Integer index) {
    return code == null || code < 1 || code > 255
        ? null
        : splitIndex(text, String.valueOf((char) (int) code), index);
  }

  /** Later pairs win. Both delimiters are regular expressions. */
  static Map<String, String> toMap(String text, String delimiter, String keyDelimiter) {
    if (text == null || delimiter == null || keyDelimiter == null) {
      return null;
    }
    if (text.isEmpty()) {
      return Map.of();
    }
    String[] pairs = text.split(delimiter);
    Map<String, String> made = new HashMap<>(pairs.length);
    for (String pair : pairs) {
      String[] parts = pair.split(keyDelimiter, 2);
      made.put(parts[0], parts.length < 2 ? null : parts[1]);
    }
    return made;
  }

  /** In characters. Of two rules for one character the first counts. */
  static String translate(String text, String from, String to) {
    if (text == null || from == null || from.isEmpty()) {
      return text;
    }
    int[] targets = to == null ? new int[0] : to.codePoints().toArray();
    int[] sources = from.codePoints().toArray();
    Map<Integer, Integer> rules = new HashMap<>();
    for (int i = 0; i < sources.length; i++) {
      rules.putIfAbsent(sources[i], i < targets.length ? targets[i] : -1);
    }
    StringBuilder made = new StringBuilder(text.length());
    text.codePoints()
        .map(c -> rules.getOrDefault(c, c))
        .filter(c -> c >= 0)
        .forEach(made::appendCodePoint);
    return made.toString();
  }

  /** NULL for a format that does not fit its arguments. */
  static String printf(String format, Row arguments) {
    if (format == null) {
      return null;
    }
    Object[] values = new Object[arguments.length()];
    for (int i = 0; i < values.length; i++) {
      values[i] = arguments.get(i);
    }
    try (Formatter formatter = new Formatter(Locale.US)) {
      return formatter.format(format, values).toString();
    } catch (IllegalFormatException unfit) {
      return null;
    }
  }

  static Boolean isAlpha(String text) {
    return text != null && !text.isEmpty() && text.chars().allMatch(Character::isLetter);
  }

  static Boolean isDigit(String text) {
    return text != null && !text.isEmpty() && text.chars().allMatch(Character::isDigit);
  }

  static Boolean isDecimal(String text) {
    if (text == null || text.isEmpty()) {
      return false;
    }
    try {
      Double.parseDouble(text);
      return true;
    } catch (NumberFormatException noNumber) {
      return false;
    }
  }
}
