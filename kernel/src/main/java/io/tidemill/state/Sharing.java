package io.tidemill.state;

import io.tidemill.time.TaskClock;
import io.tidemill.time.Valve;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/**
 * A table that several queries of a job read: its rows behind an exchange, which Spark runs once for all of them. The
 * watermark is looked at before it, where each task still has one partition, and what tasks know of time comes along, as
 * pairs among the pairs.
 */
final class Sharing {
  private static final String SEEN = "_seen";

  private Sharing() {}

  /**
   * @param time Spark's SQL for the rowtime, and {@code watermark} for the watermark after a row; null for none
   * @param kept Spark's SQL for the rows that anybody wants; null for all
   * @param readers how many tasks the rows go to; those of one task go to one, in their order
   */
  static Dataset<Row> shared(Dataset<Row> input, String time, String watermark, String kept, int readers) {
    StructType columns = input.schema();
    Dataset<Row> rows = input;
    Column header = functions.lit(0L);
    if (time != null) {
      rows = Observing.observe(input.withColumn(SEEN, functions.expr(time)), SEEN, watermark);
      // The header says nothing; but what is packed is computed.
      header = functions.when(rows.col(SEEN).isNull(), functions.lit(1L)).otherwise(functions.lit(0L));
    }
    if (kept != null) {
      rows = rows.where(kept);
    }
    MapPartitionsFunction<Tuple2<byte[], byte[]>, Tuple2<byte[], byte[]>> receiving =
        pairs -> new Sifting(pairs, new Receiving()::isRow);
    Column reader = functions.pmod(functions.spark_partition_id(), functions.lit(readers));
    Dataset<Tuple2<byte[], byte[]>> packed = Packing.pack(rows, functions.lit(Packing.NOTHING), columns, header);
    // All go the way of their task, and the marks of a task with them.
    Dataset<Tuple2<byte[], byte[]>> received =
        Marking.marked(packed, 1).repartitionById(readers, reader).mapPartitions(receiving, Packing.PAIRS);
    return Packing.fields(received, columns);
  }

  /** One task that rows and marks come to. */
  private static final class Receiving {
    private final Set<String> origins = new HashSet<>();

    boolean isRow(Tuple2<byte[], byte[]> pair) {
      boolean isMark = Marking.isMark(pair._1());
      if (isMark && Marking.isFirst(pair._1())) {
        tell(pair._2());
      }
      return !isMark;
    }

    private void tell(byte[] sent) {
      Valve valve = new Valve();
      TaskClock clock = TaskClock.current();
      origins.add(Marking.take(sent, 0, new ByteReader(), valve).origin());
      valve.marks().forEach(clock::tell);
      clock.comesFrom(origins.size() == 1 ? origins.iterator().next() : "");
    }
  }
}
