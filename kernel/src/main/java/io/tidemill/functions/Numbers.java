package io.tidemill.functions;

import java.math.BigDecimal;
import java.math.RoundingMode;
import java.util.Random;

/** Functions on numbers that follow Java where Spark gives NULL, a BIGINT or another last digit. */
final class Numbers {
  private Numbers() {}

  static Double ceil(Double x) {
    return x == null ? null : (Double) Math.ceil(x);
  }

  static Double floor(Double x) {
    return x == null ? null : (Double) Math.floor(x);
  }

  static Double exp(Double x) {
    return x == null ? null : (Double) Math.exp(x);
  }

  static Double power(Double base, Double exponent) {
    return base == null || exponent == null ? null : (Double) Math.pow(base, exponent);
  }

  static Double ln(Double x) {
    return x == null ? null : (Double) Math.log(x);
  }

  static Double log10(Double x) {
    return x == null ? null : (Double) Math.log10(x);
  }

  static Double log2(Double x) {
    return x == null ? null : (Double) (Math.log(x) / Math.log(2));
  }

  static Double log(Double base, Double x) {
    return base == null || x == null ? null : (Double) (Math.log(x) / Math.log(base));
  }

  /** Spark would divide as DOUBLE, and its optimizer then forget that an INT was a FLOAT. */
  static Float divide(Float dividend, Float divisor) {
    return dividend == null || divisor == null ? null : (Float) (dividend / divisor);
  }

  /** Spark's own minus keeps 34 digits. */
  static String negate(String number) {
    return number == null ? null : new BigDecimal(number).negate().toPlainString();
  }

  static String abs(String number) {
    return number == null ? null : new BigDecimal(number).abs().toPlainString();
  }

  static String round(String number, Integer digits) {
    return scaled(number, digits, RoundingMode.HALF_UP);
  }

  static String truncate(String number, Integer digits) {
    return scaled(number, digits, RoundingMode.DOWN);
  }

  /** A number of any type goes through its text: a function's type knows no precision. */
  private static String scaled(String number, Integer digits, RoundingMode mode) {
    if (number == null || digits == null) {
      return null;
    }
    if (!Character.isDigit(number.charAt(number.length() - 1))) {
      return number; // NaN and the infinities
    }
    BigDecimal value = new BigDecimal(number);
    if (digits >= value.scale()) {
      return number;
    }
    // So far to the left that nothing is left: do not write the zeros out.
    int digitsInFront = value.precision() - value.scale();
    return digits < -digitsInFront ? "0" : value.setScale(digits, mode).toPlainString();
  }

  static Double rand(Integer seed) {
    return seed == null ? null : (Double) new Random(seed).nextDouble();
  }

  static Integer randInteger(Integer seed, Integer bound) {
    return seed == null || bound == null ? null : (Integer) new Random(seed).nextInt(bound);
  }
}
