package io.tidemill.functions;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A path into a JSON document: {@code $.a['b c'][0][-1][0,2][1:3][*].*..name}.
 *
 * <p>A path is definite if it can lead to one value only: then that value is its answer, and to
 * find none is an error. Any other path gives the list of what it finds. In lax mode what is missing
 * is no error. Without a mode a path is strict.
 */
final class JsonPath {
  /** One hop: a member's name, an index, several, or all members. */
  private interface Step {
    void follow(Object from, Collection<Object> to);

    default boolean isDefinite() {
      return false;
    }
  }

  private record Member(String name) implements Step {
    @Override
    public void follow(Object from, Collection<Object> to) {
      if (from instanceof Map<?, ?> map && map.containsKey(name)) {
        to.add(map.get(name));
      }
    }

    @Override
    public boolean isDefinite() {
      return true;
    }
  }

  private record Index(int at) implements Step {
    @Override
    public void follow(Object from, Collection<Object> to) {
      if (from instanceof List<?> list) {
        int place = at < 0 ? list.size() + at : at;
        if (place >= 0 && place < list.size()) {
          to.add(list.get(place));
        }
      }
    }

    @Override
    public boolean isDefinite() {
      return true;
    }
  }

  private record Indexes(List<Index> each) implements Step {
    @Override
    public void follow(Object from, Collection<Object> to) {
      each.forEach(index -> index.follow(from, to));
    }
  }

  private record Slice(Integer begin, Integer end) implements Step {
    @Override
    public void follow(Object from, Collection<Object> to) {
      if (from instanceof List<?> list) {
        int size = list.size();
        to.addAll(list.subList(place(begin, 0, size), Math.max(place(begin, 0, size), place(end, size, size))));
      }
    }

    private static int place(Integer at, int otherwise, int size) {
      int counted = at == null ? otherwise : at < 0 ? size + at : at;
      return Math.max(0, Math.min(size, counted));
    }
  }

  private record Every() implements Step {
    @Override
    public void follow(Object from, Collection<Object> to) {
      to.addAll(members(from));
    }
  }

  /** The step at every depth, from the top. */
  private record Deep(Step step) implements Step {
    @Override
    public void follow(Object from, Collection<Object> to) {
      step.follow(from, to);
      members(from).forEach(member -> follow(member, to));
    }
  }

  private static Collection<?> members(Object of) {
    return of instanceof Map<?, ?> map ? map.values() : of instanceof List<?> list ? list : List.of();
  }

  /** A path that found nothing where there must be something. */
  static final class NotFound extends RuntimeException {
    NotFound(String path) {
      super("nothing is found by the path '" + path + "'", null, false, false);
    }
  }

  private static final Pattern MODE =
      Pattern.compile("^\\s*(strict|lax)\\s+(.+)$", Pattern.CASE_INSENSITIVE | Pattern.DOTALL);
  private static final Pattern STEP =
      Pattern.compile(
          "(\\.\\.?)(?:([^.\\[\\]()*?@'\"\\s]+)|(\\*))"
              + "|(\\.\\.)?\\[\\s*(?:'((?:[^'\\\\]|\\\\.)*)'|\"((?:[^\"\\\\]|\\\\.)*)\"|(\\*)"
              + "|(-?\\d*)\\s*:\\s*(-?\\d*)|(-?\\d+(?:\\s*,\\s*-?\\d+)*))\\s*\\]",
          Pattern.DOTALL);
  private static final int KEPT = 1000;
  private static final Map<String, JsonPath> READ = new ConcurrentHashMap<>();

  private final String text;
  private final boolean lax;
  private final List<Step> steps = new ArrayList<>();

  static JsonPath of(String text) {
    JsonPath found = READ.get(text);
    if (found == null) {
      if (READ.size() >= KEPT) {
        READ.clear();
      }
      found = new JsonPath(text);
      READ.put(text, found);
    }
    return found;
  }

  private JsonPath(String text) {
    this.text = text;
    Matcher moded = MODE.matcher(text);
    lax = moded.matches() && moded.group(1).equalsIgnoreCase("lax");
    String rest = (moded.matches() ? moded.group(2) : text).strip();
    rest = rest.startsWith("$") ? rest.substring(1) : "." + rest;
    Matcher next = STEP.matcher(rest);
    int at = 0;
    while (at < rest.length()) {
      if (!next.find(at) || next.start() != at) {
        throw new IllegalArgumentException("'" + text + "' is not a JSON path that can be read");
      }
      steps.add(step(next));
      at = next.end();
    }
  }

  private static Step step(Matcher read) {
    boolean deep = "..".equals(read.group(1)) || read.group(4) != null;
    Step step;
    if (read.group(2) != null) {
      step = new Member(read.group(2));
    } else if (read.group(5) != null || read.group(6) != null) {
      String name = read.group(5) != null ? read.group(5) : read.group(6);
      step = new Member(name.replaceAll("\\\\(.)", "$1"));
    } else if (read.group(10) != null) {
      List<Index> places = new ArrayList<>();
      for (String place : read.group(10).split(",")) {
        places.add(new Index(Integer.parseInt(place.strip())));
      }
      step = places.size() == 1 ? places.get(0) : new Indexes(places);
    } else if (read.group(8) != null) {
      step = new Slice(number(read.group(8)), number(read.group(9)));
    } else {
      step = new Every();
    }
    return deep ? new Deep(step) : step;
  }

  private static Integer number(String digits) {
    return digits.isEmpty() ? null : Integer.valueOf(digits);
  }

  boolean isLax() {
    return lax;
  }

  /** What is found; NULL if it is a null, or in lax mode nothing. */
  Object read(Object document) {
    List<Object> found = new ArrayList<>(List.of(document));
    boolean definite = true;
    for (Step step : steps) {
      List<Object> next = new ArrayList<>();
      for (Object from : found) {
        step.follow(from, next);
      }
      found = next;
      if (definite && step.isDefinite() && found.isEmpty()) {
        if (lax) {
          return steps.stream().allMatch(Step::isDefinite) ? null : List.of();
        }
        throw new NotFound(text);
      }
      definite &= step.isDefinite();
    }
    return definite ? found.get(0) : found;
  }
}
