package io.tidemill.state;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Tuple2;

/** The way into a keyed operator and out of it: columns become pairs of packed rows, and pairs become columns. */
final class Packing {
  static final String KIND = "_kind";
  static final Encoder<Tuple2<byte[], byte[]>> PAIRS = Encoders.tuple(Encoders.BINARY(), Encoders.BINARY());
  /** The first of a pair that says nothing. */
  static final byte[] NOTHING = new byte[PackedRow.HEADER];

  private Packing() {}

  /**
   * Rows as (key, row); the row's header is its kind, and +I where the input has no kinds. Behind a row comes its place,
   * if the input tells it, for {@link LateRows}.
   */
  static Dataset<Tuple2<byte[], byte[]>> pack(Dataset<Row> input, StructType keys, StructType columns) {
    return pack(input, keys, columns, kind(input));
  }

  static Dataset<Tuple2<byte[], byte[]>> pack(
      Dataset<Row> input, StructType keys, StructType columns, Column header) {
    return pack(input, key(input, keys), columns, header);
  }

  static Dataset<Tuple2<byte[], byte[]>> pack(
      Dataset<Row> input, Column key, StructType columns, Column header) {
    Expression[] row = expressions(input, columns);
    Expression bytes = PackedRow.row(ExpressionUtils.expression(header), row);
    if (Arrays.asList(input.columns()).contains(LateRows.PLACE)) {
      bytes = PackedRow.placed(bytes, ExpressionUtils.expression(input.col(LateRows.PLACE)));
    }
    Column packed = ExpressionUtils.column(bytes);
    return input.select(key.as("_1"), packed.as("_2")).as(PAIRS);
  }

  static Column key(Dataset<Row> input, StructType keys) {
    return ExpressionUtils.column(PackedRow.key(expressions(input, keys)));
  }

  /** The kind of a row as a BIGINT, which is a header without a number. */
  static Column kind(Dataset<Row> input) {
    return Arrays.asList(input.columns()).contains(KIND)
        ? input.col(KIND).cast(DataTypes.LongType)
        : functions.lit(0L);
  }

  /** The same pairs, each row with its number. */
  static Dataset<Tuple2<byte[], byte[]>> number(Dataset<Tuple2<byte[], byte[]>> pairs) {
    MapPartitionsFunction<Tuple2<byte[], byte[]>, Tuple2<byte[], byte[]>> numbering =
        rows -> new Numbering(rows, TaskContext.getPartitionId());
    return pairs.mapPartitions(numbering, PAIRS);
  }

  private static final class Numbering implements java.util.Iterator<Tuple2<byte[], byte[]>> {
    private final java.util.Iterator<Tuple2<byte[], byte[]>> rows;
    private final int task;
    private long next;

    Numbering(java.util.Iterator<Tuple2<byte[], byte[]>> rows, int task) {
      this.rows = rows;
      this.task = task;
    }

    @Override
    public boolean hasNext() {
      return rows.hasNext();
    }

    @Override
    public Tuple2<byte[], byte[]> next() {
      Tuple2<byte[], byte[]> pair = rows.next();
      byte[] row = pair._2();
      PackedRow.setHeader(row, Header.numbered(PackedRow.header(row), task, next++));
      return pair;
    }
  }

  /** The columns of the first, then those of the second, then the kind, which the second's header has. */
  static Dataset<Row> unpack(
      Dataset<Tuple2<byte[], byte[]>> pairs, StructType first, boolean firstOptional, StructType second,
      boolean secondOptional) {
    List<Column> columns = new ArrayList<>();
    addFields(columns, pairs.col("_1"), first, firstOptional);
    addFields(columns, pairs.col("_2"), second, secondOptional);
    Expression kind = PackedRow.unpackedKind(ExpressionUtils.expression(pairs.col("_2")));
    columns.add(ExpressionUtils.column(kind).as(KIND));
    return pairs.select(columns.toArray(Column[]::new));
  }

  static Dataset<Row> unpack(Dataset<Tuple2<byte[], byte[]>> pairs, StructType first, StructType second) {
    return unpack(pairs, first, false, second, false);
  }

  /** The columns of the second. */
  static Dataset<Row> fields(Dataset<Tuple2<byte[], byte[]>> pairs, StructType second) {
    List<Column> columns = new ArrayList<>();
    addFields(columns, pairs.col("_2"), second, false);
    return pairs.select(columns.toArray(Column[]::new));
  }

  private static void addFields(List<Column> columns, Column bytes, StructType schema, boolean optional) {
    if (schema.isEmpty()) {
      return;
    }
    Expression struct = PackedRow.unpacked(ExpressionUtils.expression(bytes), schema, optional);
    for (int i = 0; i < schema.size(); i++) {
      String name = schema.apply(i).name();
      columns.add(ExpressionUtils.column(new GetStructField(struct, i, Option.apply(name))).as(name));
    }
  }

  private static Expression[] expressions(Dataset<Row> input, StructType columns) {
    return Arrays.stream(columns.fieldNames())
        .map(name -> ExpressionUtils.expression(input.col("`" + name.replace("`", "``") + "`")))
        .toArray(Expression[]::new);
  }

  /** Columns of a Dataset by name; {@code operator} is told to whom they are missing. */
  static StructType columns(StructType schema, Iterable<String> names, String operator) {
    List<StructField> fields = new ArrayList<>();
    for (String name : names) {
      if (!Arrays.asList(schema.fieldNames()).contains(name)) {
        throw new IllegalArgumentException(
            operator + ": the input has no column '" + name + "', only " + Arrays.asList(schema.fieldNames()));
      }
      StructField field = schema.apply(name);
      fields.add(DataTypes.createStructField(name, field.dataType(), field.nullable()));
    }
    return DataTypes.createStructType(fields);
  }
}
