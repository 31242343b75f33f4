package io.tidemill.kafka;

import io.tidemill.Fault;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.CertificateExpiredException;
import java.security.cert.CertificateNotYetValidException;
import java.security.cert.X509Certificate;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.security.auth.login.LoginException;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.ClusterAuthorizationException;
import org.apache.kafka.common.errors.GroupAuthorizationException;
import org.apache.kafka.common.errors.IllegalSaslStateException;
import org.apache.kafka.common.errors.SslAuthenticationException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.errors.TransactionalIdAuthorizationException;
import org.apache.kafka.common.errors.UnsupportedSaslMechanismException;
import org.apache.kafka.common.security.ssl.DefaultSslEngineFactory;

/**
 * What a broker refuses, or we refuse of it, as a fault: which broker, what, and what to check.
 *
 * <p>Law: a refusal does not pass by itself, so that nobody tries it again. No value that may be
 * secret is in it.
 */
final class Refusals {
  /** What is found in the words of a client, what that means, and what to check; the first counts. */
  private record Sign(Pattern words, String meaning, String hint) {
    static Sign of(String words, String meaning, String hint) {
      return new Sign(Pattern.compile(words), meaning, hint);
    }
  }

  private static final String ITS_CERTIFICATE =
      "look at the broker's certificate: openssl s_client -connect HOST:PORT -showcerts";

  private static final String OUR_CERTIFICATE = "the broker at %s refused our certificate";

  /** In a handshake of TLS. {@code %s} is the broker. */
  private static final List<Sign> HANDSHAKE =
      List.of(
          Sign.of(
              "CertificateExpired|NotAfter: ",
              "the certificate of the broker at %s has expired",
              "have it renewed, and check the clock of this machine; " + ITS_CERTIFICATE),
          Sign.of(
              "CertificateNotYetValid|NotBefore: ",
              "the certificate of the broker at %s is not valid yet",
              "check the clock of this machine; " + ITS_CERTIFICATE),
          Sign.of(
              "PKIX path|certification path|trustAnchors|No trusted certificate|TrustManagerFactory",
              "the certificate of the broker at %s is of an authority that is not trusted here",
              "put the certificate of that authority into the file of"
                  + " 'properties.ssl.truststore.location'; without the option Java's own authorities"
                  + " are trusted"),
          Sign.of(
              "No subject alternative|No name matching|not match",
              "the certificate of the broker at %s is for another host",
              "name the broker in 'properties.bootstrap.servers' as its certificate does, or leave the"
                  + " check out: 'properties.ssl.endpoint.identification.algorithm' = ''"),
          Sign.of(
              "alert: (unknown_ca|certificate_unknown|certificate_revoked|certificate_expired"
                  + "|unsupported_certificate)",
              OUR_CERTIFICATE,
              "the certificate in the file of 'properties.ssl.keystore.location' must be valid today,"
                  + " and of an authority that the broker trusts"),
          Sign.of(
              "Unsupported or unrecognized SSL message|plaintext connection",
              "what answers at %s does not speak TLS",
              "set 'properties.security.protocol' to PLAINTEXT or SASL_PLAINTEXT, or name the port of a"
                  + " listener that speaks TLS"),
          Sign.of(
              "protocol_version|No appropriate protocol|no cipher suites|insufficient_security",
              "the broker at %s and this client have no version or cipher of TLS in common",
              "check 'properties.ssl.enabled.protocols' and 'properties.ssl.cipher.suites'"));

  private static final String KEYTAB =
      "check the principal, and that the keytab has its key of today: klist -kt FILE";

  /** In a login by Kerberos, which need not have come as far as the broker. */
  private static final List<Sign> KERBEROS =
      List.of(
          Sign.of(
              "Clock skew too great",
              "the clocks differ too much for Kerberos",
              "set the clocks of this machine, the broker and the KDC by NTP; Kerberos allows 5 minutes"),
          Sign.of(
              "Client not found in Kerberos database",
              "the KDC does not know the principal",
              KEYTAB),
          Sign.of(
              "Server not found in Kerberos database|LOOKING_UP_SERVER",
              "the KDC does not know the broker's principal, which is"
                  + " 'properties.sasl.kerberos.service.name' and the broker's host",
              "check 'properties.sasl.kerberos.service.name', and that"
                  + " 'properties.bootstrap.servers' has the host name that the broker's principal has"),
          Sign.of(
              "Unable to obtain password from user|asked for a password|Could not load configuration file"
                  + "|Pre-?authentication|Integrity check|Checksum failed|PREAUTH_FAILED"
                  + "|Cannot find key|no keys? ",
              "the keytab has no key for the principal, or an old one",
              KEYTAB),
          Sign.of(
              "Cannot (locate|find) (default realm|KDC)|Cannot get kdc for realm|default realm",
              "there is no KDC for the realm",
              "check the realm in krb5.conf, 'security.kerberos.login.conf'"),
          Sign.of(
              "encryption type|etype",
              "Kerberos finds no encryption type that both sides know",
              "check the encryption types of the keytab and of krb5.conf"));

  /**
   * A KDC or a token endpoint that is away comes back. Of the latter the login module only says that
   * it got no token; if the endpoint has refused one, it says that.
   */
  private static final Pattern AWAY =
      Pattern.compile("Receive timed out|Connection refused|connect timed out|No route to host"
          + "|Connect timed out|ICMP Port Unreachable|UnknownHost|Name or service not known"
          + "|retrieving token from callback handler");

  /** Some answers in a transaction the client passes on in words only. */
  private static final Pattern IN_WORDS =
      Pattern.compile("(Topic|Group|Cluster|Transactional Id) authorization failed");

  /** What the client's constructor says of a store that it cannot open. */
  private static final Pattern STORE = Pattern.compile("SSL keystore (\\S+) of type (\\S+)");

  private static final Pattern WRONG_PASSWORD =
      Pattern.compile("password was incorrect|tampered with|Integrity check|Get Key failed|Cannot recover key"
          + "|not properly padded|BadPadding|UnrecoverableKey|keystore password");

  private static final Pattern NO_MODULE =
      Pattern.compile("[Nn]o LoginModule found|unable to find LoginModule|LoginModule class"
          + "|No LoginModules configured");

  /** What stands in front of a message in a trace. */
  private static final Pattern CLASS = Pattern.compile("^(?:[\\w.$]+(?:Exception|Error): )+");

  private Refusals() {}

  /** The fault for a client's exception; null if nothing was refused. */
  static Fault of(Map<String, String> properties, String doing, Throwable thrown) {
    for (Throwable e = thrown; e != null; e = e.getCause()) {
      if (e instanceof SslAuthenticationException) {
        return handshake(properties, doing, e);
      }
      if (e instanceof AuthenticationException) {
        return login(properties, doing, e);
      }
      if (e instanceof AuthorizationException refused) {
        return right(properties, doing, refused);
      }
      if (IN_WORDS.matcher(String.valueOf(e.getMessage())).find()) {
        return right(properties, doing, new AuthorizationException(e.getMessage()));
      }
    }
    return null;
  }

  private static Fault handshake(Map<String, String> properties, String doing, Throwable e) {
    String servers = properties.get("bootstrap.servers");
    String said = words(properties, e);
    for (Sign sign : HANDSHAKE) {
      if (sign.words().matcher(said).find()) {
        String meaning = sign.meaning().formatted(servers);
        String days = sign.meaning().equals(OUR_CERTIFICATE) ? wrongDays(properties) : null;
        if (days != null) {
          return denied(
              doing + ": " + meaning + ", which " + days,
              "renew the certificate in the file of 'properties.ssl.keystore.location', and check the"
                  + " clock of this machine and that of the broker");
        }
        return denied(doing + ": " + meaning + ": " + last(properties, e), sign.hint());
      }
    }
    boolean hasCertificate =
        properties.containsKey("ssl.keystore.location") || properties.containsKey("ssl.keystore.key");
    if (said.contains("alert: ") && !hasCertificate) {
      return denied(
          "%s: the broker at %s refused a client without a certificate: %s"
              .formatted(doing, servers, last(properties, e)),
          "give the table one: 'properties.ssl.keystore.location', '.password' and"
              + " 'properties.ssl.key.password'");
    }
    return denied(
        "%s: no TLS with the broker at %s: %s".formatted(doing, servers, last(properties, e)),
        "check 'properties.security.protocol' and 'properties.ssl.*'");
  }

  /**
   * What is wrong with the days of the certificate that we show; null if nothing is, or it cannot be
   * looked at. Brokers refuse such a certificate as they refuse any other.
   */
  private static String wrongDays(Map<String, String> properties) {
    ConfigDef tls = new ConfigDef().withClientSslSupport();
    try (DefaultSslEngineFactory stores = new DefaultSslEngineFactory()) {
      stores.configure(new AbstractConfig(tls, Shipped.placed(properties), false).values());
      KeyStore own = stores.keystore();
      for (String alias : own == null ? List.<String>of() : Collections.list(own.aliases())) {
        if (own.isKeyEntry(alias) && own.getCertificate(alias) instanceof X509Certificate shown) {
          shown.checkValidity();
        }
      }
      return null;
    } catch (CertificateExpiredException e) {
      return "has expired: " + e.getMessage();
    } catch (CertificateNotYetValidException e) {
      return "is not valid yet: " + e.getMessage();
    } catch (GeneralSecurityException | RuntimeException e) {
      return null;
    }
  }

  private static Fault login(Map<String, String> properties, String doing, Throwable e) {
    String servers = properties.get("bootstrap.servers");
    String mechanism = Listener.mechanism(properties);
    String refused = "%s: the broker at %s refused a login by %s: ".formatted(doing, servers, mechanism);
    if (e instanceof UnsupportedSaslMechanismException) {
      return denied(
          refused + Clients.scrub(properties, e.getMessage()),
          "set 'properties.sasl.mechanism' to one that the broker takes");
    }
    if (e instanceof IllegalSaslStateException) {
      return denied(
          refused + Clients.scrub(properties, e.getMessage()),
          "this listener takes no login: set 'properties.security.protocol' to PLAINTEXT or SSL, or name"
              + " the port of another");
    }
    Sign sign = kerberosSign(mechanism, words(properties, e));
    return sign != null
        ? denied(refused + sign.meaning(), sign.hint())
        : denied(refused + Clients.scrub(properties, e.getMessage()), toCheck(mechanism));
  }

  private static Sign kerberosSign(String mechanism, String said) {
    if (mechanism.equals("GSSAPI")) {
      for (Sign sign : KERBEROS) {
        if (sign.words().matcher(said).find()) {
          return sign;
        }
      }
    }
    return null;
  }

  private static String toCheck(String mechanism) {
    return switch (mechanism) {
      case "GSSAPI" ->
          "check the principal, the keytab and krb5.conf, and 'properties.sasl.kerberos.service.name'";
      case "OAUTHBEARER" ->
          "check the token: its issuer, audience, scope and time, 'properties.sasl.oauthbearer.*' and"
              + " 'properties.sasl.jaas.config'";
      default -> "check the user and the password in 'properties.sasl.jaas.config'";
    };
  }

  /** What is not allowed; the client names it, if not always what of it was wanted. */
  private static Fault right(Map<String, String> properties, String doing, AuthorizationException e) {
    String refused = doing + ": the broker at " + properties.get("bootstrap.servers") + " refused ";
    if (e instanceof TopicAuthorizationException of && !of.unauthorizedTopics().isEmpty()) {
      Set<String> topics = new TreeSet<>(of.unauthorizedTopics());
      return denied(
          refused + "topic '" + String.join("', '", topics) + "' to the table's user",
          grant("READ to read it, WRITE to write to it, CREATE to make it", "--topic", topics.iterator().next()));
    }
    if (e instanceof GroupAuthorizationException of && of.groupId() != null) {
      return denied(
          refused + "group '" + of.groupId() + "' to the table's user",
          grant("READ", "--group", of.groupId()));
    }
    if (e instanceof TransactionalIdAuthorizationException) {
      return denied(
          refused + "the transactional ids of the table to its user",
          "its user needs WRITE and DESCRIBE on transactional ids that begin with"
              + " 'sink.transactional-id-prefix', and READ on groups that do: kafka-acls --add"
              + " --resource-pattern-type prefixed --transactional-id … --group …");
    }
    if (e instanceof ClusterAuthorizationException) {
      return denied(
          refused + "an idempotent write to the table's user",
          "its user needs WRITE on the topic, on brokers before 2.8 IDEMPOTENT_WRITE on the cluster as"
              + " well; or do without: 'properties.enable.idempotence' = 'false'");
    }
    return denied(
        refused + "it: " + Clients.scrub(properties, e.getMessage()),
        "ask for the rights of the table's user, kafka-acls --list");
  }

  private static String grant(String operation, String kind, String name) {
    return "its user needs %s: kafka-acls --add --allow-principal User:NAME --operation … %s '%s'"
        .formatted(operation, kind, name);
  }

  /**
   * What a constructor of the client complains of; null if it is not about a login or a store. The
   * exceptions of constructors quote values, so they are not passed on.
   */
  static Fault unmade(Map<String, String> properties, Throwable thrown) {
    String servers = properties.get("bootstrap.servers");
    String said = words(properties, thrown);
    Matcher store = STORE.matcher(said);
    if (store.find()) {
      return store(properties, store.group(1), store.group(2), said, thrown);
    }
    if (NO_MODULE.matcher(said).find()) {
      return new Fault(
          Fault.CLIENT_PROPERTY,
          "the login module in 'properties.sasl.jaas.config' is not there: " + last(properties, thrown),
          "Kafka's own are org.apache.kafka.common.security.plain.PlainLoginModule,"
              + " ….scram.ScramLoginModule and ….oauthbearer.OAuthBearerLoginModule; Kerberos has"
              + " com.sun.security.auth.module.Krb5LoginModule");
    }
    if (said.contains("allowed.urls")) {
      return new Fault(
          Fault.CLIENT_PROPERTY,
          "the Kafka client asks for tokens only where it is allowed to, and"
              + " 'properties.sasl.oauthbearer.token.endpoint.url' is not",
          "allow it: --conf spark.driver.extraJavaOptions="
              + "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=URL, and the same for"
              + " spark.executor.extraJavaOptions");
    }
    for (Throwable e = thrown; e != null; e = e.getCause()) {
      if (!(e instanceof LoginException)) {
        continue;
      }
      String mechanism = Listener.mechanism(properties);
      String doing = "the login by " + mechanism + " for " + servers + " failed: ";
      Sign sign = kerberosSign(mechanism, said);
      if (sign != null) {
        return denied(doing + sign.meaning(), sign.hint());
      }
      if (AWAY.matcher(said).find()) {
        return new Fault(
            Fault.BROKER_UNREACHABLE,
            doing + "no answer from " + (mechanism.equals("GSSAPI") ? "the KDC" : "the token endpoint"),
            mechanism.equals("GSSAPI")
                ? "check the KDC in krb5.conf, and that it runs and can be reached from here"
                : "check 'properties.sasl.oauthbearer.token.endpoint.url'",
            new TimeoutException());
      }
      return denied(doing + last(properties, thrown), toCheck(mechanism));
    }
    return null;
  }

  private static Fault store(
      Map<String, String> properties, String path, String type, String said, Throwable thrown) {
    Map<String, String> placed = Shipped.placed(properties);
    String which = path.equals(placed.get("ssl.truststore.location")) ? "truststore" : "keystore";
    String named = "the file of 'properties.ssl." + which + ".location'";
    boolean isPassword = WRONG_PASSWORD.matcher(said).find();
    return new Fault(
        Fault.CLIENT_PROPERTY,
        named
            + (isPassword
                ? " cannot be opened with 'properties.ssl." + which + ".password'"
                : " cannot be read as " + type + ": " + last(properties, thrown)),
        isPassword
            ? "check the password, for example with keytool -list -keystore FILE"
            : "set 'properties.ssl." + which + ".type' to what the file is: JKS, PKCS12 or PEM");
  }

  private static Fault denied(String message, String hint) {
    return new Fault(Fault.ACCESS_DENIED, message, hint);
  }

  /** All that an exception and its causes say. */
  private static String words(Map<String, String> properties, Throwable thrown) {
    StringBuilder said = new StringBuilder();
    int depth = 0;
    for (Throwable e = thrown; e != null && depth < 20; e = e.getCause(), depth++) {
      said.append(e.getClass().getSimpleName()).append(": ").append(e.getMessage()).append("; ");
    }
    return Clients.scrub(properties, said.toString());
  }

  /** What the innermost of an exception's causes says. */
  private static String last(Map<String, String> properties, Throwable thrown) {
    Throwable root = thrown;
    while (root.getCause() != null && root.getCause() != root) {
      root = root.getCause();
    }
    String said = root.getMessage() == null ? root.getClass().getSimpleName() : root.getMessage();
    return Clients.scrub(properties, said.contains("\n\tat ") ? innermost(said) : said);
  }

  /** JAAS has turned what a login module threw into a text, its trace and all. */
  private static String innermost(String trace) {
    String[] causes = trace.split("\nCaused by: ");
    String said = causes[causes.length - 1].lines().findFirst().orElse(trace);
    return CLASS.matcher(said).replaceFirst("");
  }
}
