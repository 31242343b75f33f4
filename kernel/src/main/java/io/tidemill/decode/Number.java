package io.tidemill.decode;

import java.nio.charset.StandardCharsets;

/** A number as it is written: ±digits · 10^exponent, and whether it is a whole one without fraction and exponent. */
final class Number {
  private static final double[] POWERS = {
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22
  };
  private static final long EXACT = 1L << 53;

  /** Digits that a long holds, whatever they are. */
  private static final int SAFE_DIGITS = 18;

  private byte[] in;
  private int from;
  private int to;
  private boolean negative;
  private boolean whole;
  private boolean scientific;
  private long digits;
  private int count;
  private int scale;
  private int exponent;

  /** Reads by the grammar of JSON; gives the place after it. */
  int read(byte[] bytes, int begin, int end) {
    in = bytes;
    from = begin;
    int i = begin;
    negative = in[i] == '-';
    if (negative) {
      i++;
    }
    if (i == end) {
      throw Unsure.UNSURE;
    }
    long value = 0;
    int n = 0;
    int digit = in[i] - '0';
    if (digit == 0) {
      i++;
    } else {
      int start = i;
      while (digit >= 0 && digit <= 9) {
        value = value * 10 + digit;
        digit = ++i < end ? in[i] - '0' : -1;
      }
      n = i - start;
      if (n == 0) {
        throw Unsure.UNSURE;
      }
    }
    whole = true;
    scientific = false;
    scale = 0;
    exponent = 0;
    if (i < end && in[i] == '.') {
      whole = false;
      int start = ++i;
      digit = i < end ? in[i] - '0' : -1;
      while (digit >= 0 && digit <= 9) {
        value = value * 10 + digit;
        if (value != 0) {
          n++;
        }
        digit = ++i < end ? in[i] - '0' : -1;
      }
      scale = i - start;
      if (scale == 0) {
        throw Unsure.UNSURE;
      }
    }
    if (i < end && (in[i] | 0x20) == 'e') {
      i = readExponent(i + 1, end);
    }
    digits = value;
    count = n;
    to = i;
    return i;
  }

  private int readExponent(int begin, int end) {
    whole = false;
    scientific = true;
    int i = begin;
    boolean minus = i < end && in[i] == '-';
    if (minus || i < end && in[i] == '+') {
      i++;
    }
    int start = i;
    while (i < end && in[i] >= '0' && in[i] <= '9') {
      exponent = exponent * 10 + in[i++] - '0';
    }
    if (i == start || i - start > 4) {
      throw Unsure.UNSURE;
    }
    exponent = minus ? -exponent : exponent;
    return i;
  }

  long integer(long least, long most) {
    if (!whole) {
      throw Unsure.UNSURE;
    }
    long value;
    if (count <= SAFE_DIGITS) {
      value = negative ? -digits : digits;
    } else {
      try {
        value = Long.parseLong(written());
      } catch (NumberFormatException e) {
        throw Unsure.UNSURE;
      }
    }
    if (value < least || value > most) {
      throw Unsure.UNSURE;
    }
    return value;
  }

  double approximate() {
    if (negative && digits == 0 && whole) {
      throw Unsure.UNSURE; // a whole number that is -0 may lose its sign, or not
    }
    int power = exponent - scale;
    double value;
    if (count <= SAFE_DIGITS && digits <= EXACT && power >= -22 && power <= 22) {
      // Both are exact as doubles, so there is one rounding, as there must be.
      value = power < 0 ? digits / POWERS[-power] : digits * POWERS[power];
      return negative ? -value : value;
    }
    value = Double.parseDouble(written());
    if (Double.isInfinite(value)) {
      throw Unsure.UNSURE;
    }
    return value;
  }

  float single() {
    double value = approximate();
    // A table may want its floats rounded once or, through a double, twice. That differs only for a double
    // halfway between two floats; below the least normal float the halves are elsewhere.
    boolean halfway = (Double.doubleToRawLongBits(value) & 0x1fffffffL) == 0x10000000L;
    boolean tiny = value != 0 && Math.abs(value) < Float.MIN_NORMAL;
    if (halfway || tiny || Float.isInfinite((float) value)) {
      throw Unsure.UNSURE;
    }
    return (float) value;
  }

  /** The number without its point, with so many digits after it; none may be lost. */
  long unscaled(int precision, int wantedScale) {
    int missing = wantedScale - scale;
    if (scientific || missing < 0 || count + missing > Math.min(precision, SAFE_DIGITS)) {
      throw Unsure.UNSURE;
    }
    long value = digits;
    for (int i = 0; i < missing; i++) {
      value *= 10;
    }
    return negative ? -value : value;
  }

  private String written() {
    return new String(in, from, to - from, StandardCharsets.ISO_8859_1);
  }
}
