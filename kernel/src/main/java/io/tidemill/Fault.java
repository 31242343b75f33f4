package io.tidemill;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.UnknownHostException;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.errors.RetriableException;

/**
 * What went wrong, for the user: a code, a sentence and a hint.
 *
 * <p>The message is {@code TIDEMILL{"code":…,"message":…,"hint":…}}, perhaps with {@code
 * "passing":true}, on one line, because between an executor and the driver Spark keeps no exception,
 * only the text of its stack trace. Law: no value of a client property is ever in it.
 */
public final class Fault extends RuntimeException {
  public static final String BROKER_UNREACHABLE = "RUN-001";
  public static final String TOPIC_MISSING = "RUN-002";
  public static final String DATA_LOSS = "RUN-003";
  public static final String NO_COMMITTED_OFFSET = "RUN-004";
  public static final String FETCH_TIMEOUT = "RUN-005";
  public static final String SEND_FAILED = "RUN-006";
  public static final String ACCESS_DENIED = "RUN-007";
  public static final String CLIENT_PROPERTY = "RUN-008";
  public static final String FENCED = "RUN-009";
  public static final String OLD_CHECKPOINT = "RUN-012";
  public static final String TRANSACTION_TOO_LONG = "RUN-014";
  public static final String CONFLICT = "RUN-025";
  public static final String SEVERAL_ROWS = "RUN-026";
  public static final String JSON_KEY = "RUN-027";
  public static final String FILES_UNREACHABLE = "RUN-015";
  public static final String BROKER_TOO_OLD = "RUN-019";
  public static final String NULL_ROWTIME = "RUN-028";
  public static final String KERBEROS_CONF = "RUN-029";

  private static final ObjectMapper JSON = new ObjectMapper();

  private final String code;

  public Fault(String code, String message, String hint) {
    this(code, message, hint, null);
  }

  public Fault(String code, String message, String hint, Throwable cause) {
    super(text(code, message, hint, isPassing(code, cause)), cause);
    this.code = code;
  }

  public String code() {
    return code;
  }

  /** Whether it may be over when the job is started again: a broker that is away comes back, or its name does. */
  private static boolean isPassing(String code, Throwable cause) {
    if (code.equals(FETCH_TIMEOUT) || code.equals(TRANSACTION_TOO_LONG)) {
      return true;
    }
    if (!code.equals(BROKER_UNREACHABLE) && !code.equals(SEND_FAILED)) {
      return false;
    }
    Throwable at = cause;
    while (at != null && !(at instanceof RetriableException || at instanceof UnknownHostException)) {
      at = at.getCause();
    }
    return at != null;
  }

  private static String text(String code, String message, String hint, boolean passing) {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("code", code);
    fields.put("message", message);
    fields.put("hint", hint);
    if (passing) {
      fields.put("passing", true);
    }
    try {
      return "TIDEMILL" + JSON.writeValueAsString(fields);
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException(impossible);
    }
  }
}
