package io.tidemill.kafka;

import io.tidemill.Fault;
import java.io.DataInputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.cert.X509Certificate;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManager;
import javax.net.ssl.X509ExtendedTrustManager;
import org.apache.kafka.common.utils.Utils;

/**
 * What the listener of a broker speaks, found out by one question and without a login.
 *
 * <p>A client that speaks plainly to a listener of TLS, or the other way round, or without a login
 * to one that asks for it, is just hung up on: it tries again until its time is over, and then it
 * says that nobody answered.
 *
 * @param sasl whether it asks for a login; null if that was not to be found out
 * @param mechanisms by which one can log in
 */
record Listener(String address, boolean tls, Boolean sasl, List<String> mechanisms) {
  private static final int PATIENCE_MS = 2000;
  private static final short SASL_HANDSHAKE = 17;
  private static final int CORRELATION = 0x71de;
  private static final short UNSUPPORTED_MECHANISM = 33;
  private static final int MOST_BYTES = 1 << 16;
  private static final int MOST_TRIED = 2;

  /** It is asked what it speaks, and nothing is told to it: whose certificate it has does not matter. */
  private static final TrustManager ANYBODY =
      new X509ExtendedTrustManager() {
        @Override
        public void checkClientTrusted(X509Certificate[] chain, String type) {}

        @Override
        public void checkServerTrusted(X509Certificate[] chain, String type) {}

        @Override
        public void checkClientTrusted(X509Certificate[] chain, String type, Socket socket) {}

        @Override
        public void checkServerTrusted(X509Certificate[] chain, String type, Socket socket) {}

        @Override
        public void checkClientTrusted(X509Certificate[] chain, String type, SSLEngine engine) {}

        @Override
        public void checkServerTrusted(X509Certificate[] chain, String type, SSLEngine engine) {}

        @Override
        public X509Certificate[] getAcceptedIssuers() {
          return new X509Certificate[0];
        }
      };

  /** What the properties say that the listener does not speak; null if they agree, or nobody answers. */
  static Fault mismatch(Map<String, String> properties, String doing) {
    String servers = properties.get("bootstrap.servers");
    String protocol = protocol(properties);
    String mechanism = mechanism(properties);
    Listener found = servers == null ? null : find(servers, mechanism);
    if (found == null) {
      return null;
    }
    boolean sameLogin = found.sasl == null || found.sasl == isSasl(protocol);
    if (found.tls != isTls(protocol) || !sameLogin) {
      return new Fault(
          Fault.ACCESS_DENIED,
          "%s: the broker at %s speaks %s%s, and 'properties.security.protocol' is %s"
              .formatted(doing, found.address, found.protocols(), found.logins(), protocol),
          "set 'properties.security.protocol' to what this listener speaks, or name in"
              + " 'properties.bootstrap.servers' the port of a listener for "
              + protocol);
    }
    boolean canLogIn = found.mechanisms.isEmpty() || found.mechanisms.contains(mechanism);
    return canLogIn
        ? null
        : new Fault(
            Fault.ACCESS_DENIED,
            "%s: the broker at %s takes no login by %s%s"
                .formatted(doing, found.address, mechanism, found.logins()),
            "set 'properties.sasl.mechanism' to one that it takes");
  }

  static String protocol(Map<String, String> properties) {
    return properties.getOrDefault("security.protocol", "PLAINTEXT").trim().toUpperCase(Locale.ROOT);
  }

  static String mechanism(Map<String, String> properties) {
    return properties.getOrDefault("sasl.mechanism", "GSSAPI").trim();
  }

  static boolean isTls(String protocol) {
    return protocol.endsWith("SSL");
  }

  static boolean isSasl(String protocol) {
    return protocol.startsWith("SASL_");
  }

  private String protocols() {
    String transport = tls ? "SSL" : "PLAINTEXT";
    if (sasl == null) {
      return transport + " or SASL_" + transport;
    }
    return sasl ? "SASL_" + transport : transport;
  }

  private String logins() {
    return mechanisms.isEmpty() ? "" : " (it takes " + String.join(", ", mechanisms) + ")";
  }

  /** The first of some addresses where a Kafka answers; null if there is none. */
  static Listener find(String servers, String mechanism) {
    int tried = 0;
    for (String listed : servers.split(",")) {
      String address = listed.trim();
      String host = Utils.getHost(address);
      Integer port = Utils.getPort(address);
      if (host == null || port == null || tried++ >= MOST_TRIED) {
        continue;
      }
      try {
        Listener found = plain(address, host, port, mechanism);
        found = found == null ? secured(address, host, port, mechanism) : found;
        if (found != null) {
          return found;
        }
      } catch (IOException e) {
        // Nobody is there: perhaps at the next address.
      }
    }
    return null;
  }

  private static Socket connected(String host, int port) throws IOException {
    Socket socket = new Socket();
    try {
      socket.connect(new InetSocketAddress(host, port), PATIENCE_MS);
      socket.setSoTimeout(PATIENCE_MS);
      return socket;
    } catch (IOException e) {
      socket.close();
      throw e;
    }
  }

  private static Listener plain(String address, String host, int port, String mechanism)
      throws IOException {
    try (Socket socket = connected(host, port)) {
      try {
        return exchange(address, socket, mechanism, false);
      } catch (IOException e) {
        return null;
      }
    }
  }

  private static Listener secured(String address, String host, int port, String mechanism)
      throws IOException {
    boolean isTls = false;
    try (Socket socket = connected(host, port)) {
      SSLContext context = SSLContext.getInstance("TLS");
      context.init(null, new TrustManager[] {ANYBODY}, null);
      try (SSLSocket secured =
          (SSLSocket) context.getSocketFactory().createSocket(socket, host, port, true)) {
        secured.startHandshake();
        isTls = true;
        return exchange(address, secured, mechanism, true);
      }
    } catch (SSLException e) {
      // One that asks for a certificate speaks TLS, and says no more than that.
      boolean alerts = String.valueOf(e.getMessage()).contains("alert");
      return isTls || alerts ? new Listener(address, true, null, List.of()) : null;
    } catch (GeneralSecurityException e) {
      return null;
    } catch (IOException e) {
      if (isTls) {
        return new Listener(address, true, null, List.of());
      }
      throw e;
    }
  }

  /** Begins a login, by the mechanism that the table has: it costs nothing, and every Kafka answers. */
  private static Listener exchange(String address, Socket socket, String mechanism, boolean tls)
      throws IOException {
    byte[] name = mechanism.getBytes(StandardCharsets.UTF_8);
    ByteBuffer request = ByteBuffer.allocate(16 + name.length);
    request.putInt(12 + name.length).putShort(SASL_HANDSHAKE).putShort((short) 1);
    request.putInt(CORRELATION).putShort((short) -1).putShort((short) name.length).put(name);
    socket.getOutputStream().write(request.array());
    socket.getOutputStream().flush();
    DataInputStream in = new DataInputStream(socket.getInputStream());
    int size = in.readInt();
    if (size < 10 || size > MOST_BYTES || in.readInt() != CORRELATION) {
      return null;
    }
    short error = in.readShort();
    List<String> mechanisms = new ArrayList<>();
    for (int left = Math.min(in.readInt(), MOST_BYTES); left > 0; left--) {
      byte[] text = new byte[Math.max(0, in.readShort())];
      in.readFully(text);
      mechanisms.add(new String(text, StandardCharsets.UTF_8));
    }
    boolean sasl = error == 0 || error == UNSUPPORTED_MECHANISM;
    return new Listener(address, tls, sasl, sasl ? mechanisms : List.of());
  }
}
