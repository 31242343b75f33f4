package io.tidemill;

import java.util.HashMap;
import java.util.Map;

/**
 * Where specs lie that have passwords in them, by a key that anybody may see.
 *
 * <p>Spark shows the options of a data source: in plans, in its event log, in its pages. So the option is a key, and the
 * spec is found here, in the driver. Executors get it with the readers and writers that were made of it.
 */
public final class Vault {
  private static final String PREFIX = "vault:";
  // By owner, then by spec: who asks twice, as at a restart, is given the same key.
  private static final Map<String, Map<String, String>> KEYS = new HashMap<>();
  private static final Map<String, String> SPECS = new HashMap<>();

  private Vault() {}

  /** The key of a spec, until {@code owner}, a job, is forgotten. */
  public static synchronized String keep(String owner, String spec) {
    Map<String, String> keys = KEYS.computeIfAbsent(owner, o -> new HashMap<>());
    return keys.computeIfAbsent(
        spec,
        s -> {
          String key = PREFIX + owner + "/" + keys.size();
          SPECS.put(key, s);
          return key;
        });
  }

  /** The spec of a key; a spec that is its own key, because there is nothing to hide in it, as it is. */
  public static synchronized String open(String key) {
    if (key == null || !key.startsWith(PREFIX)) {
      return key;
    }
    String spec = SPECS.get(key);
    if (spec == null) {
      throw new IllegalStateException("the job is over for which this table was made");
    }
    return spec;
  }

  /** The job is over. */
  public static synchronized void forget(String owner) {
    Map<String, String> keys = KEYS.remove(owner);
    if (keys != null) {
      keys.values().forEach(SPECS::remove);
    }
  }

  /** How many specs are kept. */
  public static synchronized int size() {
    return SPECS.size();
  }
}
