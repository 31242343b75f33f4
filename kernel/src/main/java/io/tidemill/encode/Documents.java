package io.tidemill.encode;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.StructType;

/** The way out of the kernel: rows become the documents of records, without a Python worker. */
public final class Documents {
  private Documents() {}

  /**
   * In: the columns that the spec names. Out: {@code key} if there is one, {@code value}, and what is kept.
   *
   * @param specJson a {@link DocumentSpec}
   */
  public static Dataset<Row> encode(Dataset<Row> input, String specJson) {
    DocumentSpec spec = parse(specJson);
    List<Column> columns = new ArrayList<>();
    if (spec.key() != null) {
      columns.add(document(input, spec.key(), spec.kind()).as("key"));
    }
    Column value = document(input, spec.value(), spec.kind());
    if (!spec.goes().isEmpty()) {
      Column goes = input.col(spec.kind()).isin(spec.goes().toArray());
      value = functions.when(goes, functions.lit(null)).otherwise(value);
    }
    columns.add(value.as("value"));
    spec.kept().forEach(name -> columns.add(input.col(name)));
    return input.select(columns.toArray(Column[]::new));
  }

  private static Column document(Dataset<Row> input, DocumentSpec.Side side, String kind) {
    List<String> names = new ArrayList<>();
    side.fields().forEach(field -> names.add(field.column()));
    if (side.tells()) {
      names.add(kind);
    }
    StructType row = new StructType();
    List<Expression> columns = new ArrayList<>();
    for (String name : names) {
      row = row.add(input.schema().apply(name));
      columns.add(ExpressionUtils.expression(input.col(name)));
    }
    return ExpressionUtils.column(new Document(columns, Encoder.of(side, row)));
  }

  private static DocumentSpec parse(String json) {
    try {
      return new ObjectMapper().readValue(json, DocumentSpec.class);
    } catch (JsonProcessingException e) {
      throw new IllegalArgumentException("not a valid DocumentSpec: " + e.getOriginalMessage(), e);
    }
  }
}
