package io.tidemill.kafka;

import io.tidemill.Fault;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;

/**
 * The krb5.conf of clients that log in with Kerberos.
 *
 * <p>A JVM has one, in a system property, and reads it once. So the property that a table brings is
 * no client's: it is taken out here and told to the JVM, which is made to read it, before the client
 * logs in. Law: a process never goes over to another krb5.conf, because logins that are alive are
 * renewed by it; two that say the same are one, wherever they are.
 */
final class Kerberos {
  /** The path of a krb5.conf, among the properties of a table. */
  static final String CONF = "tidemill.kerberos.conf";

  private static final String OF_JVM = "java.security.krb5.conf";
  private static byte[] used;

  private Kerberos() {}

  /** What a client is made with, without the krb5.conf, which the JVM has read now. */
  static Map<String, Object> settled(Map<String, Object> config) {
    Object conf = config.remove(CONF);
    if (conf != null) {
      use(conf.toString());
    }
    return config;
  }

  private static synchronized void use(String conf) {
    byte[] wanted = read(conf);
    if (wanted == null) {
      throw new Fault(
          Fault.CLIENT_PROPERTY,
          "the krb5.conf " + conf + " cannot be read",
          "check 'security.kerberos.krb5-conf.path', or krb5_conf of the named authentication");
    }
    String current = System.getProperty(OF_JVM);
    byte[] there = current == null ? null : read(current);
    if (used == null) {
      used = there;
    }
    if (used != null && !Arrays.equals(used, wanted)) {
      throw new Fault(
          Fault.KERBEROS_CONF,
          "the krb5.conf " + conf + " is not the one that this process logs in with already",
          "write the realms of both into one krb5.conf, or run the jobs in processes of their own");
    }
    if (there != null && used != null) {
      return;
    }
    used = wanted;
    System.setProperty(OF_JVM, conf);
    refresh();
  }

  private static byte[] read(String path) {
    try {
      return Files.readAllBytes(Path.of(path));
    } catch (IOException | InvalidPathException e) {
      return null;
    }
  }

  /** If Java has read a krb5.conf before, or found none. Its class is none of the public ones. */
  private static void refresh() {
    try {
      Class.forName("sun.security.krb5.Config").getMethod("refresh").invoke(null);
    } catch (ReflectiveOperationException | RuntimeException e) {
      // The JAAS lines that we make ask for the same themselves: refreshKrb5Config.
    }
  }
}
