package io.tidemill.encode;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.TimeType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/** What writes a value of a simple type. */
final class Writers {
  private Writers() {}

  /** Writes what stands at a place of a row or an array, which is not NULL. */
  interface Writer {
    void write(SpecializedGetters from, int at, TextOutput out);
  }

  /**
   * @param separator between a date and a time
   * @param plain whether DECIMAL is written with all its digits and without an exponent
   */
  static Writer of(DataType type, char separator, boolean plain) {
    if (type instanceof StringType) {
      return (from, at, to) -> to.text(from.getUTF8String(at));
    } else if (type instanceof LongType) {
      return (from, at, to) -> to.number(from.getLong(at));
    } else if (type instanceof IntegerType) {
      return (from, at, to) -> to.number(from.getInt(at));
    } else if (type instanceof ShortType) {
      return (from, at, to) -> to.number(from.getShort(at));
    } else if (type instanceof ByteType) {
      return (from, at, to) -> to.number(from.getByte(at));
    } else if (type instanceof DoubleType) {
      return (from, at, to) -> to.number(from.getDouble(at));
    } else if (type instanceof FloatType) {
      return (from, at, to) -> to.number(from.getFloat(at));
    } else if (type instanceof BooleanType) {
      return (from, at, to) -> to.bool(from.getBoolean(at));
    } else if (type instanceof DecimalType decimal) {
      int precision = decimal.precision();
      int scale = decimal.scale();
      return (from, at, to) -> to.number(from.getDecimal(at, precision, scale).toJavaBigDecimal(), plain);
    } else if (type instanceof DateType) {
      return (from, at, to) -> to.date(from.getInt(at));
    } else if (type instanceof TimeType) {
      return (from, at, to) -> to.time(from.getLong(at));
    } else if (type instanceof TimestampNTZType) {
      return (from, at, to) -> to.timestamp(from.getLong(at), separator, "");
    } else if (type instanceof TimestampType) {
      return (from, at, to) -> to.timestamp(from.getLong(at), separator, "Z");
    } else if (type instanceof BinaryType) {
      return (from, at, to) -> to.base64(from.getBinary(at));
    }
    throw new IllegalArgumentException(type.simpleString() + " is not written here");
  }
}
