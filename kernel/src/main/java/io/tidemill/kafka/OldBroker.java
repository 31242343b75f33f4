package io.tidemill.kafka;

import io.tidemill.Fault;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnsupportedVersionException;

/**
 * Brokers that our client cannot speak to.
 *
 * <p>A broker from 0.10 on says which requests it knows, and the client says that one it needs is
 * missing. One before 0.10 hangs up at the question, and the client takes that for a bad line and
 * tries again until its time is over. So when that has happened, the question is asked here once
 * more: who hangs up, but answers what Kafka 0.8 could answer, is a broker of that age.
 */
final class OldBroker {
  private static final Pattern ADDRESS = Pattern.compile("(?:\\w+://)?\\[?(.+?)\\]?:(\\d+)");
  private static final int PATIENCE_MS = 1500;
  private static final short METADATA = 3;
  private static final short API_VERSIONS = 18;
  private static final int NUMBER = 0x71de;

  private OldBroker() {}

  /** Whether the age of the broker is what is wrong; may take some seconds to find out. */
  static boolean isBehind(Map<String, String> properties, Throwable e) {
    return lacks(e) || e instanceof TimeoutException && isBeforeVersions(properties);
  }

  /** Whether the client says that the broker lacks what it needs; a producer says so in other words around it. */
  static boolean lacks(Throwable e) {
    Throwable at = e;
    while (at != null && !(at instanceof UnsupportedVersionException)) {
      at = at.getCause();
    }
    return at != null;
  }

  static Fault fault(Map<String, String> properties, String doing) {
    return new Fault(
        Fault.BROKER_TOO_OLD,
        "%s: the broker at %s is too old: the client of Kafka 3.9 reaches brokers from 0.11.0 on"
            .formatted(doing, properties.get("bootstrap.servers")),
        "upgrade the broker; which 'type' a table of Blink's has chooses no protocol");
  }

  static boolean isBeforeVersions(Map<String, String> properties) {
    // Behind TLS or a password there is no telling; 0.8 knew neither.
    String protocol = properties.getOrDefault("security.protocol", "PLAINTEXT");
    if (!protocol.equalsIgnoreCase("PLAINTEXT")) {
      return false;
    }
    for (String address : properties.getOrDefault("bootstrap.servers", "").split(",")) {
      Matcher at = ADDRESS.matcher(address.trim());
      if (!at.matches()) {
        continue;
      }
      try {
        InetSocketAddress broker =
            new InetSocketAddress(at.group(1), Integer.parseInt(at.group(2)));
        if (hangsUp(broker)) {
          return answers(broker, METADATA, new byte[4]); // of all topics: an array of none
        }
      } catch (IOException | RuntimeException e) {
        continue; // away, silent, or no address at all: told by what went wrong before
      }
      return false;
    }
    return false;
  }

  private static boolean hangsUp(InetSocketAddress broker) throws IOException {
    try {
      answers(broker, API_VERSIONS, new byte[0]);
      return false;
    } catch (EOFException | SocketException e) {
      return true;
    }
  }

  /** Whether a request of version 0 has an answer that is one to it. */
  private static boolean answers(InetSocketAddress broker, short request, byte[] body)
      throws IOException {
    try (Socket socket = new Socket()) {
      socket.connect(broker, PATIENCE_MS);
      socket.setSoTimeout(PATIENCE_MS);
      byte[] client = "tidemill".getBytes(StandardCharsets.US_ASCII);
      DataOutputStream out = new DataOutputStream(socket.getOutputStream());
      out.writeInt(2 + 2 + 4 + 2 + client.length + body.length);
      out.writeShort(request);
      out.writeShort(0);
      out.writeInt(NUMBER);
      out.writeShort(client.length);
      out.write(client);
      out.write(body);
      out.flush();
      DataInputStream in = new DataInputStream(socket.getInputStream());
      return in.readInt() >= 4 && in.readInt() == NUMBER;
    }
  }
}
