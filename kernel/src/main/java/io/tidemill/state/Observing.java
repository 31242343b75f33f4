package io.tidemill.state;

import io.tidemill.time.Mark;
import io.tidemill.time.TaskClock;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataType;
import scala.Option;

/**
 * The place where a table's rows pass by its watermark: a projection that gives the rowtime as it is. It depends on more
 * than its arguments, as far as Spark is concerned, so that no filter moves below it.
 */
final class Observing {
  private Observing() {}

  static Dataset<Row> observe(Dataset<Row> input, String time, String watermark) {
    DataType type = input.schema().apply(time).dataType();
    Column told = functions.expr(watermark);
    Column none = ExpressionUtils.column(new Literal(Mark.NONE, type));
    Column known = functions.when(told.isNull(), none).otherwise(told);
    Expression passed =
        new StaticInvoke(
            TaskClock.class,
            type,
            "observe",
            PackedRow.seq(ExpressionUtils.expression(input.col(time)), ExpressionUtils.expression(known)),
            PackedRow.seq(),
            true,
            true,
            false,
            Option.empty());
    return input.withColumn(time, ExpressionUtils.column(passed));
  }
}
