package io.tidemill.decode;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * A place in a JSON document. Runs per byte.
 *
 * <p>Stricter than any parser that it stands in for: what RFC 8259 does not allow, what is not UTF-8
 * and what parsers read differently is {@link Unsure}.
 */
final class JsonText {
  private static final VarHandle LONGS =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
  private static final long ONES = 0x0101010101010101L;
  private static final long HIGHS = 0x8080808080808080L;
  private static final long SPACES = ONES * ' ';
  private static final long QUOTES = ONES * '"';
  private static final long BACKSLASHES = ONES * '\\';
  private static final int DEEPEST = 100;
  private static final byte[] NULL = {'n', 'u', 'l', 'l'};
  private static final byte[] TRUE = {'t', 'r', 'u', 'e'};
  private static final byte[] FALSE = {'f', 'a', 'l', 's', 'e'};

  byte[] in;
  int at;
  int end;

  /** The last text: its bytes, which may be those of the document. */
  byte[] text;

  int from;
  int length;

  final Number number = new Number();
  private byte[] unescaped = new byte[64];
  private final boolean texts;

  /** {@code texts}: whether numbers and booleans may be written as texts. */
  JsonText(boolean texts) {
    this.texts = texts;
  }

  void open(byte[] bytes, int begin, int to) {
    in = bytes;
    at = begin;
    end = to;
  }

  /** The next byte that is not white space; it is not taken. */
  byte next() {
    while (at < end) {
      byte b = in[at];
      if (b > ' ') {
        return b;
      }
      if (b != ' ' && b != '\n' && b != '\t' && b != '\r') {
        throw Unsure.UNSURE;
      }
      at++;
    }
    throw Unsure.UNSURE;
  }

  void take(char wanted) {
    if (next() != wanted) {
      throw Unsure.UNSURE;
    }
    at++;
  }

  /** After the document there may be nothing but white space. */
  void close() {
    while (at < end) {
      byte b = in[at++];
      if (b != ' ' && b != '\n' && b != '\t' && b != '\r') {
        throw Unsure.UNSURE;
      }
    }
  }

  /** Whether the text here is just this name; then it is taken. */
  boolean takes(byte[] name) {
    int begin = at + 1;
    int stop = begin + name.length;
    if (stop >= end || in[at] != '"' || in[stop] != '"') {
      return false;
    }
    if (!Arrays.equals(in, begin, stop, name, 0, name.length)) {
      return false;
    }
    at = stop + 1;
    return true;
  }

  /** Takes the text here, which must be one. */
  void string() {
    if (in[at] != '"') {
      throw Unsure.UNSURE;
    }
    int start = at + 1;
    int i = start;
    long high = 0;
    while (true) {
      if (i + 8 <= end) {
        long word = (long) LONGS.get(in, i);
        long found = zeros(word ^ QUOTES) | zeros(word ^ BACKSLASHES) | (word - SPACES) & ~word & HIGHS;
        if (found == 0) {
          high |= word;
          i += 8;
          continue;
        }
        int before = Long.numberOfTrailingZeros(found) & ~7;
        high |= word & ((1L << before) - 1);
        i += before >>> 3;
      } else {
        while (i < end && in[i] != '"' && in[i] != '\\' && (in[i] & 0xff) >= ' ') {
          high |= in[i++];
        }
        if (i == end) {
          throw Unsure.UNSURE;
        }
      }
      break;
    }
    if (in[i] == '"') {
      text = in;
      from = start;
      length = i - start;
      at = i + 1;
    } else if (in[i] == '\\') {
      unescape(start, i);
    } else {
      throw Unsure.UNSURE;
    }
    if ((high & HIGHS) != 0 || text != in) {
      Texts.checkUtf8(text, from, length);
    }
  }

  private static long zeros(long word) {
    return (word - ONES) & ~word & HIGHS;
  }

  private void unescape(int start, int backslash) {
    // No escape is shorter than what it stands for.
    if (unescaped.length < end - start) {
      unescaped = new byte[2 * (end - start)];
    }
    byte[] out = unescaped;
    int n = backslash - start;
    System.arraycopy(in, start, out, 0, n);
    int i = backslash;
    while (i < end) {
      byte b = in[i++];
      if (b == '"') {
        text = out;
        from = 0;
        length = n;
        at = i;
        return;
      }
      if (b != '\\') {
        if (b >= 0 && b < ' ') {
          throw Unsure.UNSURE;
        }
        out[n++] = b;
        continue;
      }
      if (i == end) {
        break;
      }
      switch (in[i++]) {
        case '"' -> out[n++] = '"';
        case '\\' -> out[n++] = '\\';
        case '/' -> out[n++] = '/';
        case 'b' -> out[n++] = '\b';
        case 'f' -> out[n++] = '\f';
        case 'n' -> out[n++] = '\n';
        case 'r' -> out[n++] = '\r';
        case 't' -> out[n++] = '\t';
        case 'u' -> {
          int unit = hex(i);
          i += 4;
          int point = unit;
          if (unit >= 0xd800 && unit < 0xe000) {
            boolean paired = unit < 0xdc00 && i + 6 <= end && in[i] == '\\' && in[i + 1] == 'u';
            int low = paired ? hex(i + 2) : 0;
            if (low < 0xdc00 || low > 0xdfff) {
              throw Unsure.UNSURE;
            }
            point = Character.toCodePoint((char) unit, (char) low);
            i += 6;
          }
          n = put(out, n, point);
        }
        default -> throw Unsure.UNSURE;
      }
    }
    throw Unsure.UNSURE;
  }

  private int hex(int i) {
    if (i + 4 > end) {
      throw Unsure.UNSURE;
    }
    int unit = 0;
    for (int k = i; k < i + 4; k++) {
      int digit = in[k] < 0 ? -1 : Character.digit(in[k], 16);
      if (digit < 0) {
        throw Unsure.UNSURE;
      }
      unit = unit << 4 | digit;
    }
    return unit;
  }

  private static int put(byte[] out, int n, int point) {
    if (point < 0x80) {
      out[n++] = (byte) point;
      return n;
    }
    if (point < 0x800) {
      out[n++] = (byte) (0xc0 | point >> 6);
    } else {
      if (point < 0x10000) {
        out[n++] = (byte) (0xe0 | point >> 12);
      } else {
        out[n++] = (byte) (0xf0 | point >> 18);
        out[n++] = (byte) (0x80 | point >> 12 & 0x3f);
      }
      out[n++] = (byte) (0x80 | point >> 6 & 0x3f);
    }
    out[n++] = (byte) (0x80 | point & 0x3f);
    return n;
  }

  boolean bool() {
    if (texts && in[at] == '"') {
      string();
      boolean yes = isText(TRUE);
      if (!yes && !isText(FALSE)) {
        throw Unsure.UNSURE;
      }
      return yes;
    }
    boolean yes = in[at] == 't';
    word(yes ? TRUE : FALSE);
    return yes;
  }

  private boolean isText(byte[] word) {
    return Arrays.equals(text, from, from + length, word, 0, word.length);
  }

  void nothing() {
    word(NULL);
  }

  private void word(byte[] word) {
    if (at + word.length > end || !Arrays.equals(in, at, at + word.length, word, 0, word.length)) {
      throw Unsure.UNSURE;
    }
    at += word.length;
  }

  /** Takes the number here, which must be one, into {@link #number}. */
  void number() {
    if (texts && in[at] == '"') {
      string();
      if (length == 0 || number.read(text, from, from + length) != from + length) {
        throw Unsure.UNSURE;
      }
    } else {
      at = number.read(in, at, end);
    }
  }

  /** Takes a value of any kind. */
  void skip() {
    skip(0);
  }

  private void skip(int depth) {
    if (depth > DEEPEST) {
      throw Unsure.UNSURE;
    }
    switch (next()) {
      case '"' -> string();
      case '{' -> {
        at++;
        if (next() == '}') {
          at++;
          return;
        }
        while (true) {
          next();
          string();
          take(':');
          skip(depth + 1);
          if (ends('}')) {
            return;
          }
        }
      }
      case '[' -> {
        at++;
        if (next() == ']') {
          at++;
          return;
        }
        do {
          skip(depth + 1);
        } while (!ends(']'));
      }
      case 't', 'f' -> bool();
      case 'n' -> nothing();
      default -> number();
    }
  }

  /** How many elements the array here has, which is not taken. */
  int elements() {
    int start = at;
    int count = 0;
    take('[');
    if (next() != ']') {
      do {
        skip();
        count++;
      } while (!ends(']'));
    }
    at = start;
    return count;
  }

  /** Takes a comma, or the bracket: then true. */
  boolean ends(char bracket) {
    byte b = next();
    at++;
    if (b == bracket) {
      return true;
    }
    if (b != ',') {
      throw Unsure.UNSURE;
    }
    return false;
  }

  String shown() {
    return new String(text, from, length, StandardCharsets.UTF_8);
  }
}
