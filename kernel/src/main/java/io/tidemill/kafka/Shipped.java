package io.tidemill.kafka;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Files that a client's properties name: key stores, keytabs.
 *
 * <p>Where tasks run on other machines than the driver's, its paths mean nothing. There a value
 * carries the file itself, as {@code tidemill-file:NAME:BASE64:}, and this class puts it down and
 * gives its place. Files travel as passwords do, inside of the specs of tasks, and not by Spark's
 * file server, which hands them to whoever asks and leaves them on the workers, to be read by all.
 * Law: what is put down can be read by the user of this process alone, and is gone with it.
 */
public final class Shipped {
  private static final String SIGN = "tidemill-file:";
  private static final Pattern FILE =
      Pattern.compile(SIGN + "([A-Za-z0-9._-]*):([A-Za-z0-9+/=]*):");
  private static final Map<String, Path> PLACES = new HashMap<>();
  private static Path directory;

  private Shipped() {}

  /** The properties with the places of the files that they carry. */
  static Map<String, String> placed(Map<String, String> properties) {
    if (properties.values().stream().noneMatch(value -> value != null && value.contains(SIGN))) {
      return properties;
    }
    Map<String, String> placed = new HashMap<>(properties);
    placed.replaceAll((name, value) -> placed(value));
    return placed;
  }

  public static String placed(String value) {
    if (value == null || !value.contains(SIGN)) {
      return value;
    }
    return FILE.matcher(value)
        .replaceAll(
            file -> Matcher.quoteReplacement(place(file.group(1), file.group(2)).toString()));
  }

  private static synchronized Path place(String name, String content) {
    Path known = PLACES.get(content);
    // Somebody may tidy up temporary files behind our back.
    if (known != null && Files.isReadable(known)) {
      return known;
    }
    try {
      if (directory == null || !Files.isDirectory(directory)) {
        directory = Files.createTempDirectory("tidemill-files-");
        Path made = directory;
        Runtime.getRuntime().addShutdownHook(new Thread(() -> remove(made)));
      }
      Path place = Files.createTempFile(directory, null, "-" + name);
      Files.write(place, Base64.getDecoder().decode(content));
      PLACES.put(content, place);
      return place;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static void remove(Path directory) {
    try (var files = Files.list(directory)) {
      for (Path file : files.toList()) {
        Files.deleteIfExists(file);
      }
      Files.deleteIfExists(directory);
    } catch (IOException e) {
      // The process ends; there is nobody left to tell.
    }
  }
}
