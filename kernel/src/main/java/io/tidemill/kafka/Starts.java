package io.tidemill.kafka;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Which sources of this driver have fixed where they start: from then on, what is written to their
 * topics is read by the job.
 */
public final class Starts {
  private static final Set<String> FIXED = ConcurrentHashMap.newKeySet();

  private Starts() {}

  /** How many sources below a checkpoint directory know their start. */
  public static int fixed(String checkpointPrefix) {
    String prefix = normal(checkpointPrefix) + "/";
    return (int) FIXED.stream().filter(path -> path.startsWith(prefix)).count();
  }

  static void add(String metadataPath) {
    FIXED.add(normal(metadataPath));
  }

  /** Spark writes file:/a where others write file:///a or /a. */
  private static String normal(String path) {
    return path.replaceFirst("^file:/+", "/").replaceAll("/+$", "");
  }
}
