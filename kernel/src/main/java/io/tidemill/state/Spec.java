package io.tidemill.state;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;

/** What the planner asks of an operator, as it comes over the border: JSON that fits a record. */
final class Spec {
  private Spec() {}

  static <T> T parse(String json, Class<T> type) {
    try {
      return new ObjectMapper()
          .configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false)
          .readValue(json, type);
    } catch (JsonProcessingException e) {
      throw new IllegalArgumentException(type.getSimpleName() + ": unreadable: " + e.getOriginalMessage(), e);
    }
  }
}
