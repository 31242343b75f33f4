package io.tidemill.state;

import java.io.Serializable;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.TransformWithState;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/**
 * State read back. In: the values and pages of an operator as Spark's reader of checkpoints gives them, and what the
 * planner asked of the operator. Out: the rows that it keeps, as columns.
 *
 * <p>The operator itself reads its bytes: it is planned once more, over no rows, and taken out of the plan. So there is
 * one place that knows how a state is laid out.
 */
public final class StateReader {
  private StateReader() {}

  /**
   * @param values columns {@code key} and {@code value}, BINARY, and {@code pages}, a map from BIGINT to BINARY or NULL
   * @param operator the method of {@link Operators} that plans it
   * @param inputs the schemas of its inputs, as JSON
   * @param keys the columns of its key, as JSON
   * @return the key's columns, then what is kept for it: a row for each that is kept. Where what is kept holds the key,
   *     or is a row of another key, it stands alone; of an operator that tells nothing there are the keys.
   */
  public static Dataset<Row> rows(
      Dataset<Row> values, String operator, String specJson, List<String> inputs, String keys) {
    KeyedProcessor reader = revived(values.sparkSession(), operator, specJson, inputs);
    StructType key = (StructType) DataType.fromJson(keys);
    StructType kept = reader.kept();
    Dataset<Row> rows =
        Packing.unpack(values.flatMap(new Look(reader), Packing.PAIRS), key, kept).drop(Packing.KIND);
    if (!Arrays.asList(kept.fieldNames()).containsAll(Arrays.asList(key.fieldNames()))) {
      return rows;
    }
    return rows.toDF(numbered(rows.columns().length)).select(columns(key.size(), kept));
  }

  private static String[] numbered(int count) {
    return java.util.stream.IntStream.range(0, count).mapToObj(i -> "_" + i).toArray(String[]::new);
  }

  private static Column[] columns(int from, StructType kept) {
    Column[] columns = new Column[kept.size()];
    for (int i = 0; i < columns.length; i++) {
      columns[i] = functions.col("_" + (from + i)).as(kept.apply(i).name());
    }
    return columns;
  }

  private static final class Look implements FlatMapFunction<Row, Tuple2<byte[], byte[]>>, Serializable {
    private final KeyedProcessor reader;
    private transient Map<Long, byte[]> pages;

    Look(KeyedProcessor reader) {
      this.reader = reader;
    }

    @Override
    public Iterator<Tuple2<byte[], byte[]>> call(Row row) {
      if (pages == null) {
        pages = new HashMap<>();
        // Who only looks changes nothing.
        reader.openToLook(Pages.in(Collections.unmodifiableMap(pages)));
      }
      pages.clear();
      if (!row.isNullAt(2)) {
        pages.putAll(row.<Long, byte[]>getJavaMap(2));
      }
      byte[] key = (byte[]) row.get(0);
      List<Tuple2<byte[], byte[]>> rows = new ArrayList<>();
      if (reader.kept().isEmpty()) {
        rows.add(new Tuple2<>(key, Packing.NOTHING));
      } else {
        reader.look((byte[]) row.get(1), body -> rows.add(new Tuple2<>(key, body)));
      }
      return rows.iterator();
    }
  }

  private static KeyedProcessor revived(
      SparkSession spark, String operator, String specJson, List<String> inputs) {
    Method method =
        Arrays.stream(Operators.class.getMethods())
            .filter(m -> m.getName().equals(operator))
            .findFirst()
            .orElseThrow(() -> new IllegalArgumentException("there is no operator '" + operator + "'"));
    Iterator<String> schemas = inputs.iterator();
    Object[] arguments = new Object[method.getParameterCount()];
    for (int i = 0; i < arguments.length; i++) {
      Class<?> type = method.getParameterTypes()[i];
      if (type == Dataset.class) {
        StructType schema = (StructType) DataType.fromJson(schemas.next());
        arguments[i] = spark.createDataFrame(List.of(), schema);
      } else {
        arguments[i] = type == Counts.class ? Counts.of(spark) : specJson;
      }
    }
    try {
      Dataset<?> planned = (Dataset<?>) method.invoke(null, arguments);
      return found(((org.apache.spark.sql.classic.Dataset<?>) planned).queryExecution().analyzed());
    } catch (InvocationTargetException e) {
      throw e.getCause() instanceof RuntimeException cause ? cause : new IllegalStateException(e.getCause());
    } catch (IllegalAccessException e) {
      throw new IllegalStateException(e);
    }
  }

  /** The operator that is uppermost in a plan. */
  private static KeyedProcessor found(LogicalPlan plan) {
    if (plan instanceof TransformWithState node) {
      Object processor = node.statefulProcessor();
      return (KeyedProcessor) processor;
    }
    for (LogicalPlan child : CollectionConverters.asJava(plan.children())) {
      KeyedProcessor below = found(child);
      if (below != null) {
        return below;
      }
    }
    return null;
  }
}
