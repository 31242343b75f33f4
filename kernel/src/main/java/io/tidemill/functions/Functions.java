package io.tidemill.functions;

import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.UDFRegistration;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.api.java.UDF2;
import org.apache.spark.sql.api.java.UDF3;
import org.apache.spark.sql.api.java.UDF4;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * What Spark SQL cannot say, as functions whose names begin with {@code tidemill_}.
 *
 * <p>Law: a function is a pure static method that gives NULL for a NULL, so that Spark may call it
 * as often and where it likes. Dates come and go as days, points in time as microseconds since
 * 1970: Spark's own classes for them would take the way over the calendar of 1582.
 */
public final class Functions {
  private record Row(String name, Object function, DataType result) {}

  private static Row row(String name, UDF1<?, ?> function, DataType result) {
    return new Row(name, function, result);
  }

  private static Row row(String name, UDF2<?, ?, ?> function, DataType result) {
    return new Row(name, function, result);
  }

  private static Row row(String name, UDF3<?, ?, ?, ?> function, DataType result) {
    return new Row(name, function, result);
  }

  private static Row row(String name, UDF4<?, ?, ?, ?, ?> function, DataType result) {
    return new Row(name, function, result);
  }

  private static final List<Row> TABLE =
      List.of(
          row("text_to_integer", Casts::integer, DataTypes.LongType),
          row("text_to_double", Casts::approximate, DataTypes.DoubleType),
          row("text_to_decimal", Casts::decimal, DataTypes.StringType),
          row("text_to_boolean", Casts::bool, DataTypes.BooleanType),
          row("text_to_date", Casts::date, DataTypes.IntegerType),
          row("text_to_time", Casts::time, DataTypes.LongType),
          row("text_to_timestamp", Casts::timestamp, DataTypes.LongType));

  private Functions() {}

  public static void register(SparkSession spark) {
    UDFRegistration registry = spark.udf();
    for (Row row : TABLE) {
      String name = "tidemill_" + row.name;
      if (row.function instanceof UDF1<?, ?> function) {
        registry.register(name, function, row.result);
      } else if (row.function instanceof UDF2<?, ?, ?> function) {
        registry.register(name, function, row.result);
      } else if (row.function instanceof UDF3<?, ?, ?, ?> function) {
        registry.register(name, function, row.result);
      } else if (row.function instanceof UDF4<?, ?, ?, ?, ?> function) {
        registry.register(name, function, row.result);
      }
    }
  }
}
