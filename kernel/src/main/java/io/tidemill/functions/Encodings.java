package io.tidemill.functions;

import java.io.UnsupportedEncodingException;
import java.net.MalformedURLException;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Base64;
import java.util.HexFormat;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Text as bytes and back, digests, the parts of an address. */
final class Encodings {
  private Encodings() {}

  static byte[] fromBase64(String text) {
    return text == null ? null : Base64.getDecoder().decode(text.getBytes(StandardCharsets.UTF_8));
  }

  static byte[] encode(String text, String charset) throws UnsupportedEncodingException {
    return text == null || charset == null ? null : text.getBytes(charset);
  }

  static String decode(byte[] bytes, String charset) throws UnsupportedEncodingException {
    return bytes == null || charset == null ? null : new String(bytes, charset);
  }

  /** Of an odd number of digits the first is checked and counts nothing, as in Flink. */
  static byte[] unhex(String text) {
    if (text == null) {
      return null;
    }
    int odd = text.length() % 2;
    byte[] made = new byte[(text.length() + odd) / 2];
    for (int i = 0; i < text.length(); i++) {
      if (text.charAt(i) > 'f' || !HexFormat.isHexDigit(text.charAt(i))) {
        return null;
      }
    }
    for (int i = odd; i < text.length(); i += 2) {
      made[(i + odd) / 2] = (byte) HexFormat.fromHexDigits(text, i, i + 2);
    }
    return made;
  }

  static String sha2(String text, Integer bits) throws NoSuchAlgorithmException {
    if (text == null || bits == null) {
      return null;
    }
    byte[] digest =
        MessageDigest.getInstance("SHA-" + bits).digest(text.getBytes(StandardCharsets.UTF_8));
    return HexFormat.of().formatHex(digest);
  }

  /** NULL for what is no address, and for a part that it does not have. */
  static String urlPart(String text, String part) {
    if (text == null || part == null) {
      return null;
    }
    try {
      URL url = new URL(text);
      return switch (part) {
        case "HOST" -> url.getHost();
        case "PATH" -> url.getPath();
        case "QUERY" -> url.getQuery();
        case "REF" -> url.getRef();
        case "PROTOCOL" -> url.getProtocol();
        case "FILE" -> url.getFile();
        case "AUTHORITY" -> url.getAuthority();
        case "USERINFO" -> url.getUserInfo();
        default -> null;
      };
    } catch (MalformedURLException noAddress) {
      return null;
    }
  }

  /** The value of one key of the query, as it is written. */
  static String urlQuery(String text, String part, String key) {
    if (key == null || !"QUERY".equals(part)) {
      return null;
    }
    String query = urlPart(text, part);
    if (query == null) {
      return null;
    }
    Matcher found = Pattern.compile("(?:&|^)" + Pattern.quote(key) + "=([^&]*)").matcher(query);
    return found.find() ? found.group(1) : null;
  }
}
