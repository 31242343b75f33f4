package io.tidemill.kafka;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;

/** Specs and offsets as JSON; an unknown field is refused, so that a typo cannot go unnoticed. */
final class Json {
  private static final ObjectMapper MAPPER = new ObjectMapper();

  private Json() {}

  static <T> T read(String text, Class<T> type) {
    try {
      return MAPPER.readValue(text, type);
    } catch (JsonProcessingException e) {
      // Its own text quotes the input, and a spec has passwords in it.
      throw new IllegalArgumentException(
          "not a valid " + type.getSimpleName() + ": " + reason(e));
    }
  }

  static <T> T read(String text, TypeReference<T> type) {
    try {
      return MAPPER.readValue(text, type);
    } catch (JsonProcessingException e) {
      throw new IllegalArgumentException("not valid JSON: " + reason(e));
    }
  }

  static boolean has(String text, String field) {
    try {
      return MAPPER.readTree(text).has(field);
    } catch (JsonProcessingException e) {
      throw new IllegalArgumentException("not valid JSON: " + reason(e));
    }
  }

  static String write(Object value) {
    try {
      return MAPPER.writeValueAsString(value);
    } catch (JsonProcessingException e) {
      throw new IllegalStateException(e);
    }
  }

  private static String reason(JsonProcessingException e) {
    if (e.getCause() instanceof IllegalArgumentException refused) {
      return refused.getMessage();
    }
    return e.getClass().getSimpleName() + " at " + e.getLocation();
  }
}
