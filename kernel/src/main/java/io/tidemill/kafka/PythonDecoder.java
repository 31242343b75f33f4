package io.tidemill.kafka;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.api.python.ChainedPythonFunctions;
import org.apache.spark.api.python.PythonEvalType;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory;
import org.apache.spark.sql.execution.python.PythonSQLMetrics;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The Python function that makes rows of blocks, to be run in the middle of a scan.
 *
 * <p>It is Spark's own {@code mapInArrow}, without the operator: a scan calls it for the records that
 * the kernel leaves, and not at all if there are none. A function cannot travel in the options of a
 * scan, so it waits here, on the driver, under a name.
 */
public final class PythonDecoder {
  private static final Map<String, PythonFunction> FUNCTIONS = new ConcurrentHashMap<>();

  private PythonDecoder() {}

  /** Keeps a function; gives the name under which a scan's spec refers to it. */
  public static String keep(PythonFunction function) {
    String name = UUID.randomUUID().toString();
    FUNCTIONS.put(name, function);
    return name;
  }

  /** What tasks make their runs of the function with. */
  static MapInBatchEvaluatorFactory factory(SparkSession session, String name, StructType rows) {
    PythonFunction function = FUNCTIONS.get(name);
    if (function == null) {
      throw new IllegalStateException("there is no Python decoder " + name);
    }
    SQLConf conf = session.sessionState().conf();
    Seq<Attribute> output = seq(CollectionConverters.asJava(DataTypeUtils.toAttributes(rows)));
    return new MapInBatchEvaluatorFactory(
        output,
        seq(List.of(new Tuple2<>(new ChainedPythonFunctions(seq(List.of(function))), (Object) 0L))),
        Block.SCHEMA,
        rows,
        conf.arrowMaxRecordsPerBatch(),
        PythonEvalType.SQL_MAP_ARROW_ITER_UDF(),
        conf.sessionLocalTimeZone(),
        conf.arrowUseLargeVarTypes(),
        ArrowPythonRunner.getPythonRunnerConfMap(conf),
        metrics(session.sparkContext()),
        Option.empty(),
        Option.empty());
  }

  /** The rows of some blocks. */
  static Iterator<InternalRow> decode(
      MapInBatchEvaluatorFactory factory, int partition, java.util.Iterator<InternalRow> blocks) {
    return factory
        .createEvaluator()
        .eval(partition, seq(List.of(CollectionConverters.asScala(blocks))));
  }

  private static scala.collection.immutable.Map<String, SQLMetric> metrics(SparkContext context) {
    Map<String, SQLMetric> metrics = new HashMap<>();
    for (var described :
        List.of(
            PythonSQLMetrics.pythonSizeMetricsDesc(),
            PythonSQLMetrics.pythonTimingMetricsDesc(),
            PythonSQLMetrics.pythonOtherMetricsDesc())) {
      CollectionConverters.asJava(described)
          .forEach((name, text) -> metrics.put(name, SQLMetrics.createMetric(context, text)));
    }
    return scala.collection.immutable.Map.from(CollectionConverters.asScala(metrics));
  }

  @SuppressWarnings("unchecked")
  private static <T> Seq<T> seq(List<? extends T> list) {
    return (Seq<T>) CollectionConverters.asScala(list).toSeq();
  }
}
