package io.tidemill.functions;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/** Regular expressions, Java's as in Flink; one that does not compile gives no match, or NULL. */
final class Regexps {
  private static final int KEPT = 1000;
  private static final Map<String, Pattern> COMPILED = new ConcurrentHashMap<>();
  private static final Map<String, Pattern> SIMILAR = new ConcurrentHashMap<>();
  /** What SIMILAR TO understands; other signs of Java's expressions stand for themselves. */
  private static final String SPECIAL = "_%|*+()[]{}?^-";
  private static final String ONLY_JAVA = ".$\\^";
  private static final Map<String, String> CLASSES =
      Map.of(
          "[:ALPHA:]", "\\p{Alpha}",
          "[:UPPER:]", "\\p{Upper}",
          "[:LOWER:]", "\\p{Lower}",
          "[:DIGIT:]", "\\d",
          "[:SPACE:]", " ",
          "[:WHITESPACE:]", "\\s",
          "[:ALNUM:]", "\\p{Alnum}");

  private Regexps() {}

  private static Pattern compiled(String regex) {
    Pattern found = COMPILED.get(regex);
    if (found == null) {
      if (COMPILED.size() >= KEPT) {
        COMPILED.clear();
      }
      found = Pattern.compile(regex);
      COMPILED.put(regex, found);
    }
    return found;
  }

  /** A matcher, or NULL for a NULL and for what is no regular expression. */
  private static Matcher matcher(String text, String regex) {
    if (text == null || regex == null) {
      return null;
    }
    try {
      return compiled(regex).matcher(text);
    } catch (PatternSyntaxException noRegex) {
      return null;
    }
  }

  /** An empty expression matches nothing. */
  static Boolean matches(String text, String regex) {
    if (text == null || regex == null) {
      return null;
    }
    Matcher matcher = matcher(text, regex);
    return matcher != null && !regex.isEmpty() && matcher.find();
  }

  /** The replacement is plain text. */
  static String replace(String text, String regex, String by) {
    if (by == null) {
      return null;
    }
    Matcher matcher = matcher(text, regex);
    return matcher == null ? null : matcher.replaceAll(Matcher.quoteReplacement(by));
  }

  static String extract(String text, String regex, Integer group) {
    Matcher matcher = matcher(text, regex);
    if (matcher == null || group == null || group < 0 || group > matcher.groupCount()) {
      return null;
    }
    return matcher.find() ? matcher.group(group) : null;
  }

  static String[] extractAll(String text, String regex, Integer group) {
    Matcher matcher = matcher(text, regex);
    if (matcher == null || group == null || group < 0 || group > matcher.groupCount()) {
      return null;
    }
    List<String> found = new ArrayList<>();
    while (matcher.find()) {
      found.add(matcher.group(group));
    }
    return found.toArray(new String[0]);
  }

  static Integer count(String text, String regex) {
    Matcher matcher = matcher(text, regex);
    if (matcher == null) {
      return null;
    }
    int found = 0;
    while (matcher.find()) {
      found++;
    }
    return found;
  }

  /** In chars, from 1; 0 if there is no match. */
  static Integer instr(String text, String regex) {
    Matcher matcher = matcher(text, regex);
    return matcher == null ? null : matcher.find() ? (Integer) (matcher.start() + 1) : (Integer) 0;
  }

  static String substr(String text, String regex) {
    return extract(text, regex, 0);
  }

  /** SIMILAR TO: SQL's own expressions, which must match the whole text. */
  static Boolean similar(String text, String pattern, String escape) {
    if (text == null || pattern == null || escape == null) {
      return null;
    }
    String key = escape.length() + escape + pattern;
    Pattern found = SIMILAR.get(key);
    if (found == null) {
      if (SIMILAR.size() >= KEPT) {
        SIMILAR.clear();
      }
      found = Pattern.compile(toJava(pattern, escape));
      SIMILAR.put(key, found);
    }
    return found.matcher(text).matches();
  }

  private static String toJava(String pattern, String escape) {
    StringBuilder made = new StringBuilder();
    for (int i = 0; i < pattern.length(); i++) {
      char c = pattern.charAt(i);
      if (!escape.isEmpty() && c == escape.charAt(0)) {
        char next = ++i < pattern.length() ? pattern.charAt(i) : 0;
        if (next != c && SPECIAL.indexOf(next) < 0) {
          throw new IllegalArgumentException(
              "'" + pattern + "' has an escape sign that stands before no special one");
        }
        made.append('\\').append(next);
      } else if (c == '_') {
        made.append("(?s:.)");
      } else if (c == '%') {
        made.append("(?s:.*)");
      } else if (c == '[') {
        i = charList(pattern, i, made);
      } else {
        made.append(ONLY_JAVA.indexOf(c) < 0 ? "" : "\\").append(c);
      }
    }
    return made.toString();
  }

  /** Copies a list of characters; the place of its last sign. */
  private static int charList(String pattern, int start, StringBuilder made) {
    made.append('[');
    for (int i = start + 1; i < pattern.length(); i++) {
      char c = pattern.charAt(i);
      if (c == ']') {
        made.append(']');
        return i;
      }
      int end = c == '[' ? pattern.indexOf(":]", i) + 2 : 0;
      String name = end > 2 ? CLASSES.get(pattern.substring(i, end).toUpperCase()) : null;
      if (name != null) {
        made.append(name);
        i = end - 1;
      } else {
        made.append(c == '[' || c == '\\' || c == '&' ? "\\" : "").append(c);
      }
    }
    throw new IllegalArgumentException("'" + pattern + "' has a '[' that is not closed");
  }
}
