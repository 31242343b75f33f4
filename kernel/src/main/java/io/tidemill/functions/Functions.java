package io.tidemill.functions;

import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.UDFRegistration;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.api.java.UDF2;
import org.apache.spark.sql.api.java.UDF3;
import org.apache.spark.sql.api.java.UDF4;
import org.apache.spark.sql.api.java.UDF5;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.expressions.UserDefinedFunction;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.TimeType;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What Spark SQL cannot say, as functions whose names begin with {@code tidemill_}.
 *
 * <p>Law: a function is a pure static method that is ready for a NULL, so that Spark may call it as
 * often and where it likes; {@link #RANDOM} ones are not pure, and Spark knows. Dates and times are
 * java.time's: java.sql's would take the way over the calendar of 1582, so a point in time comes in
 * as its wall-clock time or as microseconds.
 */
public final class Functions {
  private record Row(String name, Object function, DataType result) {}

  private static <A, R> Row row(String name, UDF1<A, R> function, DataType result) {
    return new Row(name, function, result);
  }

  private static <A, B, R> Row row(String name, UDF2<A, B, R> function, DataType result) {
    return new Row(name, function, result);
  }

  private static <A, B, C, R> Row row(String name, UDF3<A, B, C, R> function, DataType result) {
    return new Row(name, function, result);
  }

  private static <A, B, C, D, R> Row row(
      String name, UDF4<A, B, C, D, R> function, DataType result) {
    return new Row(name, function, result);
  }

  private static <A, B, C, D, E, R> Row row(
      String name, UDF5<A, B, C, D, E, R> function, DataType result) {
    return new Row(name, function, result);
  }

  private static final DataType STRING = DataTypes.StringType;
  private static final DataType INT = DataTypes.IntegerType;
  private static final DataType BOOLEAN = DataTypes.BooleanType;
  private static final DataType BINARY = DataTypes.BinaryType;
  private static final DataType STRINGS = DataTypes.createArrayType(STRING);

  private static final List<Row> TEXT =
      List.of(
          row("ascii", Text::ascii, INT),
          row("initcap", Text::initcap, STRING),
          row("substring", Text::substring, STRING),
          row("lpad", Text::lpad, STRING),
          row("rpad", Text::rpad, STRING),
          row("replace", Text::replace, STRING),
          row("overlay", Text::overlay, STRING),
          row("locate", Text::locate, INT),
          row("instr", Text::instr, INT),
          row("split", Text::split, STRINGS),
          row("split_index", Text::splitIndex, STRING),
          row("split_index_by_code", Text::splitIndexByCode, STRING),
          row("str_to_map", Text::toMap, DataTypes.createMapType(STRING, STRING)),
          row("translate", Text::translate, STRING),
          row("printf", Text::printf, STRING),
          row("is_alpha", Text::isAlpha, BOOLEAN),
          row("is_digit", Text::isDigit, BOOLEAN),
          row("is_decimal", Text::isDecimal, BOOLEAN),
          row("regexp", Regexps::matches, BOOLEAN),
          row("regexp_replace", Regexps::replace, STRING),
          row("regexp_extract", Regexps::extract, STRING),
          row("regexp_extract_all", Regexps::extractAll, STRINGS),
          row("regexp_count", Regexps::count, INT),
          row("regexp_instr", Regexps::instr, INT),
          row("regexp_substr", Regexps::substr, STRING),
          row("similar", Regexps::similar, BOOLEAN),
          row("from_base64", Encodings::fromBase64, BINARY),
          row("encode", Encodings::encode, BINARY),
          row("decode", Encodings::decode, STRING),
          row("unhex", Encodings::unhex, BINARY),
          row("sha2", Encodings::sha2, STRING),
          row("url_part", Encodings::urlPart, STRING),
          row("url_query", Encodings::urlQuery, STRING),
          row("is_json", Json::is, BOOLEAN),
          row("json_exists", Json::exists, BOOLEAN),
          row("json_value", Json::value, STRING),
          row("json_query", Json::query, STRING),
          row("json_query_array", Json::queryArray, STRINGS),
          row("json_string", Json::string, STRING),
          row("json_object", Json::object, STRING),
          row("json_array", Json::array, STRING),
          row("json_quote", Json::quote, STRING),
          row("json_unquote", Json::unquote, STRING));

  private static final List<Row> TABLE =
      List.of(
          row("ceil", Numbers::ceil, DataTypes.DoubleType),
          row("floor", Numbers::floor, DataTypes.DoubleType),
          row("exp", Numbers::exp, DataTypes.DoubleType),
          row("power", Numbers::power, DataTypes.DoubleType),
          row("ln", Numbers::ln, DataTypes.DoubleType),
          row("log", Numbers::log, DataTypes.DoubleType),
          row("log10", Numbers::log10, DataTypes.DoubleType),
          row("log2", Numbers::log2, DataTypes.DoubleType),
          row("divide", Numbers::divide, DataTypes.FloatType),
          row("negate", Numbers::negate, DataTypes.StringType),
          row("abs", Numbers::abs, DataTypes.StringType),
          row("rand", Numbers::rand, DataTypes.DoubleType),
          row("rand_integer", Numbers::randInteger, DataTypes.IntegerType),
          row("round", Numbers::round, DataTypes.StringType),
          row("truncate", Numbers::truncate, DataTypes.StringType),
          row("plain", Casts::plain, DataTypes.StringType),
          row("day_time_text", Temporal::dayTimeText, DataTypes.StringType),
          row("year_month_text", Temporal::yearMonthText, DataTypes.StringType),
          row("date_format", Temporal::dateFormat, DataTypes.StringType),
          row("text_format", Temporal::textFormat, DataTypes.StringType),
          row("timestamp_text", Temporal::timestampText, DataTypes.StringType),
          row("from_unixtime", Temporal::fromUnixtime, DataTypes.StringType),
          row("unix_timestamp", Temporal::unixTimestamp, DataTypes.LongType),
          row("convert_tz", Temporal::convertTz, DataTypes.StringType),
          row("to_date", Temporal::toDate, DataTypes.DateType),
          row("to_timestamp", Temporal::toTimestamp, DataTypes.TimestampNTZType),
          row("to_timestamp_ltz", Temporal::toTimestampLtz, DataTypes.TimestampType),
          row("of_epoch", Temporal::ofEpoch, DataTypes.TimestampType),
          row("truncate_timestamp", Temporal::truncateTimestamp, DataTypes.TimestampNTZType),
          row("add_to_time", Temporal::addToTime, new TimeType(6)),
          row("add_months", Temporal::addMonths, DataTypes.LongType),
          row("timestampdiff", Temporal::timestampdiff, DataTypes.IntegerType),
          row("extract", Temporal::extract, DataTypes.LongType),
          row("floor_time", Temporal::floorTime, DataTypes.TimestampNTZType),
          row("ceil_time", Temporal::ceilTime, DataTypes.TimestampNTZType),
          row("floor_zoned", Temporal::floorZoned, DataTypes.LongType),
          row("ceil_zoned", Temporal::ceilZoned, DataTypes.LongType),
          row("floor_date", Temporal::floorDays, DataTypes.DateType),
          row("ceil_date", Temporal::ceilDays, DataTypes.DateType),
          row("text_to_integer", Casts::integer, DataTypes.LongType),
          row("text_to_double", Casts::doublePrecision, DataTypes.DoubleType),
          row("text_to_float", Casts::singlePrecision, DataTypes.FloatType),
          row("text_to_decimal", Casts::decimal, DataTypes.StringType),
          row("text_to_boolean", Casts::bool, DataTypes.BooleanType),
          row("text_to_date", Casts::date, DataTypes.DateType),
          row("text_to_time", Casts::time, new TimeType(6)),
          row("text_to_timestamp", Casts::timestamp, DataTypes.TimestampNTZType));

  private static final List<Row> RANDOM =
      List.of(
          row("random", Draws::number, DataTypes.DoubleType),
          row("random_seeded", Draws::seeded, DataTypes.DoubleType),
          row("uuid", Draws::uuid, STRING));

  /** A method of Spark's own values, as generated code has them: for what all rows of a table pass. */
  private record Native(String name, Class<?> holder, String method, DataType result) {}

  private static final Seq<AbstractDataType> NO_TYPES =
      CollectionConverters.asScala(List.<AbstractDataType>of()).toList();

  private static final List<Native> NATIVE =
      List.of(
          new Native("char_length", Text.class, "charLength", INT),
          new Native("plus_millis", Temporal.class, "plusMillis", DataTypes.TimestampNTZType));

  private Functions() {}

  public static void register(SparkSession spark) {
    UDFRegistration registry = spark.udf();
    FunctionRegistry natives =
        ((org.apache.spark.sql.classic.SparkSession) spark).sessionState().functionRegistry();
    NATIVE.forEach(each -> natives.createOrReplaceTempFunction("tidemill_" + each.name, asNative(each), "java_udf"));
    TEXT.forEach(row -> register(registry, row));
    TABLE.forEach(row -> register(registry, row));
    RANDOM.forEach(row -> registry.register("tidemill_" + row.name, asRandom(row)));
  }

  private static Function1<Seq<Expression>, Expression> asNative(Native each) {
    return arguments ->
        new StaticInvoke(
            each.holder, each.result, each.method, arguments, NO_TYPES, true, true, true, Option.empty());
  }

  private static UserDefinedFunction asRandom(Row row) {
    UserDefinedFunction function =
        row.function instanceof UDF1<?, ?> one
            ? functions.udf(one, row.result)
            : functions.udf((UDF2<?, ?, ?>) row.function, row.result);
    return function.asNondeterministic();
  }

  private static void register(UDFRegistration registry, Row row) {
    String name = "tidemill_" + row.name;
    if (row.function instanceof UDF1<?, ?> function) {
      registry.register(name, function, row.result);
    } else if (row.function instanceof UDF2<?, ?, ?> function) {
      registry.register(name, function, row.result);
    } else if (row.function instanceof UDF3<?, ?, ?, ?> function) {
      registry.register(name, function, row.result);
    } else if (row.function instanceof UDF4<?, ?, ?, ?, ?> function) {
      registry.register(name, function, row.result);
    } else if (row.function instanceof UDF5<?, ?, ?, ?, ?, ?> function) {
      registry.register(name, function, row.result);
    }
  }
}
