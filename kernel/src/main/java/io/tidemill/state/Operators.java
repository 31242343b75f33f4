package io.tidemill.state;

import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;

/**
 * The keyed operators, one static method each: a streaming Dataset and a JSON spec in, a Dataset whose last column is
 * {@code _kind} out. Python calls these and nothing else of this package.
 */
public final class Operators {
  private Operators() {}

  /**
   * {@code GROUP BY} without windows.
   *
   * <pre>
   * {"name": "GroupAggregate of totals", "keys": ["k0"], "updateBefore": true, "retracting": false,
   *  "aggregates": [{"function": "SUM", "arguments": ["a0"], "settings": [], "distinct": false,
   *                  "filter": "f0" | null, "output": "x0", "type": "bigint"}]}
   * </pre>
   *
   * Functions are those of {@link Accumulators}. {@code retracting}: the input has rows of all kinds, else all are +I.
   * Out: the keys, the outputs, {@code _kind}. Per key and batch at most one change leaves: +I the first time, -U and
   * +U (only +U without {@code updateBefore}) when the result differs from the last one sent, -D when the last row of
   * the group is gone, else nothing.
   */
  public static Dataset<Row> groupAggregate(Dataset<Row> input, String specJson, Counts counts) {
    return GroupAggregate.plan(input, Spec.parse(specJson, AggregateSpec.class), counts);
  }

  /**
   * {@code GROUP BY} with windows of equal size.
   *
   * <pre>
   * {…, "window": {"time": "c1", "attached": false, "size": 60000, "step": 60000, "offset": 0,
   *                "cumulative": false, "gap": 0, "rowtime": true, "zone": "Asia/Shanghai" | null},
   *  "clock": {"channel": "o1", "tasks": 2}}
   * </pre>
   *
   * and what a group aggregate is told. Out: the keys, {@code _start}, {@code _end} and {@code _time} of the window, the
   * outputs, {@code _kind}. Each group leaves once, when its window closes.
   */
  public static Dataset<Row> windowAggregate(Dataset<Row> input, String specJson, Counts counts) {
    return WindowAggregate.plan(input, Spec.parse(specJson, AggregateSpec.class), counts);
  }

  /**
   * {@code GROUP BY} with sessions, told as windows are; "gap" is their gap. Out: what windows give.
   */
  public static Dataset<Row> sessionAggregate(Dataset<Row> input, String specJson, Counts counts) {
    return SessionAggregate.plan(input, Spec.parse(specJson, AggregateSpec.class), counts);
  }

  /**
   * The rows of sessions, once these close.
   *
   * <pre>
   * {"name": "WindowTableFunction of clicks", "keys": ["c0"], "columns": ["c0", "c1"], "window": {…}, "clock": {…}}
   * </pre>
   *
   * Out: {@code _start}, {@code _end} and {@code _time} of the session, the columns, {@code _kind}.
   */
  public static Dataset<Row> sessions(Dataset<Row> input, String specJson, Counts counts) {
    return SessionRows.plan(input, Spec.parse(specJson, SessionRows.SessionSpec.class), counts);
  }

  /**
   * Top-N of windows that rows know; the window's "time" is the column of its end, one of the partition.
   *
   * <pre>
   * {"name": "WindowRank of sales", "partition": ["c0", "c2", "c3"], "columns": ["c0", "c1", "c2", "c3"],
   *  "order": [{"column": "c1", "descending": true, "nullsLast": true}], "start": 1, "end": 3, "number": true,
   *  "window": {…}, "clock": {…}}
   * </pre>
   *
   * Out: the columns, {@code _number} if it is asked for, {@code _kind}.
   */
  public static Dataset<Row> windowRank(Dataset<Row> input, String specJson, Counts counts) {
    return WindowRank.plan(input, Spec.parse(specJson, WindowRank.WindowRankSpec.class), counts);
  }

  /**
   * The first or the last row of each key of such windows, by a rowtime.
   *
   * <pre>
   * {"name": "WindowDeduplicate of clicks", "keys": ["c0", "c2", "c3"], "columns": ["c0", "c1", "c2", "c3"],
   *  "time": "c1", "last": true, "window": {…}, "clock": {…}}
   * </pre>
   *
   * Out: the columns, {@code _kind}.
   */
  public static Dataset<Row> windowDeduplicate(Dataset<Row> input, String specJson, Counts counts) {
    return WindowDeduplicate.plan(
        input, Spec.parse(specJson, WindowDeduplicate.WindowDeduplicateSpec.class), counts);
  }

  /**
   * A join of the rows of such windows.
   *
   * <pre>
   * {"name": "WindowJoin of a and b", "kind": "INNER|LEFT|RIGHT|FULL|SEMI|ANTI",
   *  "left": {"columns": ["c0", "c1", "c2"], "keys": ["c1", "c2"]}, "right": {…}, "nullSafe": [false, false],
   *  "condition": "c0 > c3" | null, "window": {…}, "clock": {…}}
   * </pre>
   *
   * The window's "time" is a column of the left side. Out: what a regular join gives.
   */
  public static Dataset<Row> windowJoin(Dataset<Row> left, Dataset<Row> right, String specJson, Counts counts) {
    return WindowJoin.plan(left, right, Spec.parse(specJson, WindowJoin.WindowJoinSpec.class), counts);
  }

  /**
   * Each row once for every window that it is in, with {@code _start}, {@code _end} and {@code _time} of it.
   *
   * <pre>
   * {"time": "c1", …} as the "window" of an aggregate
   * </pre>
   *
   * @param refusing the aggregate that stands above and cannot do with a row without a time; null counts such rows
   */
  public static Dataset<Row> windows(Dataset<Row> input, String specJson, String refusing, Counts counts) {
    Column noTime = refusing == null ? counts.leavesOut() : counts.refuses(refusing);
    return Spec.parse(specJson, WindowSpec.class).assign(input, noTime);
  }

  /**
   * Has the tasks of a table look at its watermark.
   *
   * @param time the column that is the table's rowtime
   * @param watermark Spark's SQL for the watermark after a row, of the same type
   */
  public static Dataset<Row> observe(Dataset<Row> input, String time, String watermark) {
    return Observing.observe(input, time, watermark);
  }

  /**
   * A table for several queries, which is read once and tells all of them the time.
   *
   * @param time Spark's SQL for the table's rowtime, and {@code watermark} for the watermark after a row; null for none
   * @param kept Spark's SQL for the rows that any of them wants; null for all
   * @param readers how many tasks its rows go to
   */
  public static Dataset<Row> share(Dataset<Row> input, String time, String watermark, String kept, int readers) {
    return Sharing.shared(input, time, watermark, kept, readers);
  }

  /**
   * Completes an upsert stream.
   *
   * <pre>
   * {"name": "ChangelogNormalize of prices", "keys": ["c0"], "columns": ["c0", "c1"], "origin": "_origin" | null,
   *  "order": "_order" | null, "filtered": false, "every": false, "updateBefore": true, "ttl": [3600000] | null}
   * </pre>
   *
   * In: rows to put in (+I, +U) and to take out (-U, -D) by key. Out: the columns, {@code _kind}.
   */
  public static Dataset<Row> normalize(Dataset<Row> input, String specJson, Counts counts) {
    return Normalize.plan(input, Spec.parse(specJson, Normalize.NormalizeSpec.class), counts);
  }

  /**
   * Top-N.
   *
   * <pre>
   * {"name": "Rank of sales", "partition": ["c0"], "columns": ["c0", "c1"],
   *  "order": [{"column": "c1", "descending": true, "nullsLast": true}], "start": 1, "end": 3 | null,
   *  "endColumn": "c1" | null, "number": true, "strategy": "APPEND|UPDATE|RETRACT", "rowKey": ["c0"] | null,
   *  "byRank": true, "deletesByKey": false, "updateBefore": true}
   * </pre>
   *
   * Out: the columns, {@code _number} if it is asked for, {@code _kind}.
   */
  public static Dataset<Row> rank(Dataset<Row> input, String specJson, Counts counts) {
    return Rank.plan(input, Spec.parse(specJson, Rank.RankSpec.class), counts);
  }

  /**
   * The first or the last row of each key, over append-only input.
   *
   * <pre>
   * {"name": "Deduplicate of clicks", "keys": ["c0"], "columns": ["c0", "c1"], "time": "c1", "rowtime": true,
   *  "last": true, "every": false, "updateBefore": true}
   * </pre>
   *
   * Out: the columns, {@code _kind}.
   */
  public static Dataset<Row> deduplicate(Dataset<Row> input, String specJson) {
    return Deduplicate.plan(input, Spec.parse(specJson, Deduplicate.DeduplicateSpec.class));
  }

  /**
   * The first row of each key by a rowtime, over append-only input; the spec is that of {@link #deduplicate}.
   *
   * <p>Out: the columns, {@code _kind}.
   */
  public static Dataset<Row> firstByTime(Dataset<Row> input, String specJson, Counts counts) {
    return FirstByTime.plan(input, Spec.parse(specJson, Deduplicate.DeduplicateSpec.class), counts);
  }

  /**
   * OVER aggregates that share a window, over append-only input.
   *
   * <pre>
   * {"name": "OverAggregate of orders", "keys": ["c0"], "columns": ["c0", "c1"], "time": "c1" | null, "rows": true,
   *  "preceding": 3 | null, "calls": {"name": …, "retracting": true, "aggregates": […]}}
   * </pre>
   *
   * {@code calls}: as of a group aggregate; they retract where there is a bound. Out: the columns, the outputs, {@code
   * _kind}.
   */
  public static Dataset<Row> over(Dataset<Row> input, String specJson, Counts counts) {
    return Over.plan(input, Spec.parse(specJson, Over.OverSpec.class), counts);
  }

  /**
   * All rows in the order of a time attribute, over append-only input.
   *
   * <pre>
   * {"name": "TemporalSort of orders", "keys": [], "columns": ["c0", "c1"], "time": "c1" | null,
   *  "order": [{"column": "c0", "descending": true, "nullsLast": true}]}
   * </pre>
   *
   * {@code order}: what decides among rows of one time. Out: the columns, {@code _kind}.
   */
  public static Dataset<Row> temporalSort(Dataset<Row> input, String specJson, Counts counts) {
    return TemporalSort.plan(input, Spec.parse(specJson, TemporalSort.SortSpec.class), counts);
  }

  /**
   * Puts the changes of a sink's primary key in order, where the query has another key.
   *
   * <pre>
   * {"name": "table 'totals'", "keys": ["c0"], "keyNames": ["id"], "columns": ["c0", "c1"],
   *  "upsertKey": ["c1"] | null, "onConflict": "DEDUPLICATE|NOTHING|ERROR", "insertOnly": false}
   * </pre>
   *
   * Out: the columns, {@code _kind}, which is never an update-before.
   */
  public static Dataset<Row> materialize(Dataset<Row> input, String specJson, Counts counts) {
    return Materialize.plan(input, Spec.parse(specJson, Materialize.MaterializeSpec.class), counts);
  }

  /**
   * A regular join of two changelogs.
   *
   * <pre>
   * {"name": "Join of a and b", "kind": "INNER|LEFT|RIGHT|FULL|SEMI|ANTI",
   *  "left": {"columns": ["c0", "c1"], "keys": ["c0"], "unique": ["c0"] | null}, "right": {…},
   *  "nullSafe": [false], "condition": "c1 > c3" | null, "updateKey": ["c0"] | null,
   *  "updateBefore": true, "updates": true, "deletes": true}
   * </pre>
   *
   * The columns of the two sides have different names. {@code unique}: columns that tell the rows of a side apart that
   * sends updates without the row before. {@code updateKey}: columns of the result; of rows that are equal in them, the
   * later one replaces the other. Out: the left side's columns, those of the right side unless the join is half of one,
   * {@code _kind}.
   */
  public static Dataset<Row> join(Dataset<Row> left, Dataset<Row> right, String specJson, Counts counts) {
    return Join.plan(left, right, Spec.parse(specJson, Join.JoinSpec.class), counts);
  }

  /**
   * A join of rows whose times are near each other: left time + lower <= right time <= left time + upper.
   *
   * <pre>
   * {"name": "IntervalJoin of a and b", "kind": "INNER|LEFT|RIGHT|FULL", "left": {…}, "right": {…}, "nullSafe": […],
   *  "condition": "c1 > c3" | null, "leftTime": "c2", "rightTime": "c4", "lower": 0, "upper": 3600000,
   *  "rowtime": true, "clock": {"channel": "o1", "tasks": 2}}
   * </pre>
   *
   * The sides are told as those of {@link #join}. Out: the left side's columns, those of the right side, {@code _kind},
   * which is always +I.
   */
  public static Dataset<Row> intervalJoin(Dataset<Row> left, Dataset<Row> right, String specJson, Counts counts) {
    return IntervalJoin.plan(left, right, Spec.parse(specJson, IntervalJoin.IntervalSpec.class), counts);
  }

  /**
   * A join of rows with the versions of a table that held at their time.
   *
   * <pre>
   * {"name": "TemporalJoin of a and b", "kind": "INNER|LEFT", "left": {…}, "right": {…}, "nullSafe": […],
   *  "condition": "c1 > c3" | null, "leftTime": "c2", "rightTime": "c4", "ttl": [0],
   *  "clock": {"channel": "o1", "tasks": 2}}
   * </pre>
   *
   * Out: the left side's columns, those of the right side, {@code _kind}, which is that of the left row.
   */
  public static Dataset<Row> temporalJoin(Dataset<Row> left, Dataset<Row> right, String specJson, Counts counts) {
    return TemporalJoin.plan(left, right, Spec.parse(specJson, TemporalJoin.TemporalSpec.class), counts);
  }
}
