package io.tidemill.functions;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.math.BigDecimal;
import java.sql.Timestamp;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.Row;
import scala.jdk.javaapi.CollectionConverters;

/** JSON documents: tested, read by a path, built. Members of an object are written by name. */
final class Json {
  private static final ObjectMapper MAPPER =
      JsonMapper.builder()
          .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
          .enable(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS)
          .disable(StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION)
          .build();

  private Json() {}

  private static Object parse(String text) throws JsonProcessingException {
    return MAPPER.readValue(text, Object.class);
  }

  private static String write(Object value) {
    try {
      return MAPPER.writeValueAsString(value);
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  // --- tests -----------------------------------------------------------------------------------

  /** IS JSON VALUE, OBJECT, ARRAY or SCALAR. */
  static Boolean is(String text, String kind) {
    if (text == null) {
      return false;
    }
    try {
      Object found = parse(text);
      return switch (kind) {
        case "OBJECT" -> found instanceof Map;
        case "ARRAY" -> found instanceof List;
        case "SCALAR" -> isScalar(found);
        default -> true;
      };
    } catch (JsonProcessingException noJson) {
      return false;
    }
  }

  private static boolean isScalar(Object value) {
    return !(value instanceof Map) && !(value instanceof List);
  }

  // --- reading ---------------------------------------------------------------------------------

  /** What a path gives: a value, NULL for nothing, or the reason why there is no answer. */
  private record Found(Object value, RuntimeException problem, boolean lax) {}

  private static Found find(String text, String path) {
    JsonPath read = JsonPath.of(path);
    Object document;
    try {
      document = parse(text);
    } catch (JsonProcessingException noJson) {
      String said = "this is no JSON: " + noJson.getOriginalMessage();
      return new Found(null, read.isLax() ? null : new IllegalArgumentException(said), read.isLax());
    }
    if (document == null) {
      String said = "a path leads nowhere from a JSON null";
      return new Found(null, new IllegalArgumentException(said), read.isLax());
    }
    try {
      return new Found(read.read(document), null, read.isLax());
    } catch (JsonPath.NotFound problem) {
      return new Found(null, problem, false);
    }
  }

  static Boolean exists(String text, String path, String onError) {
    if (text == null || path == null) {
      return null;
    }
    Found found = find(text, path);
    if (found.problem == null) {
      return found.value != null;
    }
    return switch (onError) {
      case "TRUE" -> true;
      case "UNKNOWN" -> null;
      case "ERROR" -> throw found.problem;
      default -> false;
    };
  }

  /** A behaviour is NULL, ERROR or = with a value behind it. */
  private static String instead(String behaviour, RuntimeException problem) {
    if (behaviour.equals("ERROR")) {
      throw problem;
    }
    return behaviour.startsWith("=") ? behaviour.substring(1) : null;
  }

  static String value(String text, String path, String type, String onEmpty, String onError) {
    if (text == null || path == null) {
      return null;
    }
    Found found = find(text, path);
    if (found.problem != null) {
      return instead(onError, found.problem);
    }
    Object value = found.value;
    if (value == null || !isScalar(value)) {
      String said = "JSON_VALUE finds " + (value == null ? "a null" : "an array or an object");
      return instead(found.lax ? onEmpty : onError, new IllegalArgumentException(said));
    }
    boolean fits =
        switch (type) {
          case "INT" -> value instanceof Integer;
          case "DOUBLE" -> value instanceof Number;
          case "BOOLEAN" -> value instanceof Boolean;
          default -> true;
        };
    if (!fits) {
      throw new IllegalArgumentException(
          "JSON_VALUE finds " + write(value) + ", which cannot be returned as " + type);
    }
    return value.toString();
  }

  static String query(String text, String path, String wrapper, String onEmpty, String onError) {
    Object found = queried(text, path, wrapper, onEmpty, onError);
    return found == null ? null : write(found);
  }

  /** The elements, those that are no text as JSON; NULL for what is no array. */
  static String[] queryArray(
      String text, String path, String wrapper, String onEmpty, String onError) {
    if (!(queried(text, path, wrapper, onEmpty, onError) instanceof List<?> found)) {
      return null;
    }
    return found.stream()
        .map(each -> each == null || each instanceof String ? (String) each : write(each))
        .toArray(String[]::new);
  }

  private static Object queried(
      String text, String path, String wrapper, String onEmpty, String onError) {
    if (text == null || path == null) {
      return null;
    }
    Found found = find(text, path);
    Object value = found.value;
    if (found.problem != null) {
      return queriedInstead(onError, found.problem);
    }
    boolean wrap =
        wrapper.equals("UNCONDITIONAL")
            || wrapper.equals("CONDITIONAL") && !(value instanceof List);
    if (value != null && wrap) {
      value = Collections.singletonList(value);
    }
    if (isScalar(value)) {
      String said = "JSON_QUERY finds neither an array nor an object";
      return queriedInstead(found.lax ? onEmpty : onError, new IllegalArgumentException(said));
    }
    return value;
  }

  private static Object queriedInstead(String behaviour, RuntimeException problem) {
    return switch (behaviour) {
      case "ERROR" -> throw problem;
      case "EMPTY ARRAY" -> List.of();
      case "EMPTY OBJECT" -> Map.of();
      default -> null;
    };
  }

  // --- building --------------------------------------------------------------------------------

  static String string(Row value) {
    return value == null || value.isNullAt(0) ? null : write(plain(value.get(0)));
  }

  /** Marks has a sign for each value: j for one that is JSON already. */
  static String object(scala.collection.Seq<String> names, Row values, String marks, Boolean absent) {
    Map<String, Object> made = new TreeMap<>();
    for (int i = 0; i < values.length(); i++) {
      if (names.apply(i) == null) {
        throw new IllegalArgumentException("a key of JSON_OBJECT is NULL");
      }
      if (!absent || isThere(values, i, marks)) {
        made.put(names.apply(i), member(values, i, marks));
      }
    }
    return write(made);
  }

  static String array(Row values, String marks, Boolean absent) {
    List<Object> made = new ArrayList<>();
    for (int i = 0; i < values.length(); i++) {
      if (!absent || isThere(values, i, marks)) {
        made.add(member(values, i, marks));
      }
    }
    return write(made);
  }

  private static boolean isThere(Row values, int i, String marks) {
    return !values.isNullAt(i) && !(marks.charAt(i) == 'j' && values.getString(i).isBlank());
  }

  private static Object member(Row values, int i, String marks) {
    if (marks.charAt(i) != 'j' || values.isNullAt(i)) {
      return plain(values.get(i));
    }
    try {
      return values.getString(i).isBlank() ? null : parse(values.getString(i));
    } catch (JsonProcessingException noJson) {
      throw new IllegalArgumentException("this is no JSON: " + noJson.getOriginalMessage());
    }
  }

  /** A value of Spark as one that is written as Flink writes it. */
  private static Object plain(Object value) {
    if (value instanceof Double || value instanceof Float) {
      return new BigDecimal(value.toString());
    }
    if (value instanceof LocalDateTime moment) {
      return DateTimeFormatter.ISO_LOCAL_DATE_TIME.format(moment);
    }
    if (value instanceof Timestamp moment) {
      return plain(moment.toInstant());
    }
    if (value instanceof Instant moment) {
      return DateTimeFormatter.ISO_INSTANT.format(moment);
    }
    if (value instanceof Row row) {
      Map<String, Object> made = new LinkedHashMap<>();
      for (int i = 0; i < row.length(); i++) {
        made.put(row.schema().fieldNames()[i], plain(row.get(i)));
      }
      return made;
    }
    if (value instanceof scala.collection.Map<?, ?> map) {
      Map<String, Object> made = new TreeMap<>();
      CollectionConverters.asJava(map).forEach((key, each) -> made.put((String) key, plain(each)));
      return made;
    }
    if (value instanceof scala.collection.Seq<?> array) {
      List<Object> made = new ArrayList<>();
      CollectionConverters.asJava(array).forEach(each -> made.add(plain(each)));
      return made;
    }
    return value;
  }

  // --- quotes ----------------------------------------------------------------------------------

  static String quote(String text) {
    if (text == null) {
      return null;
    }
    StringBuilder made = new StringBuilder(text.length() + 2).append('"');
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      int short_ = "\"\\/\b\f\n\r\t".indexOf(c);
      if (short_ >= 0) {
        made.append('\\').append("\"\\/bfnrt".charAt(short_));
      } else if (c < 0x80) {
        made.append(c);
      } else {
        // Of a letter outside of the basic plane Flink writes the whole number, then its second half.
        made.append(String.format("\\u%04x", text.codePointAt(i)));
      }
    }
    return made.append('"').toString();
  }

  /** The text in quotes that are JSON's; any other as it is. */
  static String unquote(String text) {
    if (text == null || text.length() < 2 || !text.startsWith("\"") || !text.endsWith("\"")) {
      return text;
    }
    try {
      return MAPPER.readValue(text, String.class);
    } catch (JsonProcessingException noJson) {
      return text;
    }
  }
}
