package io.tidemill.kafka;

import io.tidemill.Lifecycle;
import io.tidemill.time.Alarm;
import io.tidemill.time.Mark;
import io.tidemill.time.Times;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory;
import org.apache.spark.storage.BlockManagerId;
import scala.collection.Iterator;

/**
 * The driver's half of a Kafka source: decides which offsets the next batch reads.
 *
 * <p>Law: what a batch reads is in Spark's offset log before it is read. A partition that is new,
 * or whose log was cut off, therefore first appears in an offset with the place where reading will
 * begin, and gives its rows in the batch after.
 */
final class KafkaStream
    implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
  // Spark asks every 10 ms when there is nothing to do.
  private static final long IDLE_NANOS = 100_000_000;

  private final SourceSpec spec;
  private final Column[] columns;
  private final String metadataPath;
  private final Configuration conf;
  private final MapInBatchEvaluatorFactory python;
  private final KafkaReader.Counts counts;
  private final Topics topics;
  private final String run = UUID.randomUUID().toString();

  private Bounds bounds;
  private KafkaOffset ceiling;
  private boolean stopsAtCeiling;

  private Set<TopicPartition> known;
  private long discoveredAt;
  private Map<TopicPartition, Long> heads = Map.of();
  private long headsAt;
  private KafkaOffset headsFor;
  private KafkaOffset published;
  private final Allowance allowance;
  private final Admission admission = new Admission();
  private final Idleness idleness;
  private final Alignment alignment;

  KafkaStream(
      SourceSpec spec,
      Column[] columns,
      String metadataPath,
      Configuration conf,
      MapInBatchEvaluatorFactory python,
      KafkaReader.Counts counts) {
    this.spec = spec;
    this.columns = columns;
    this.metadataPath = metadataPath;
    this.conf = conf;
    this.python = python;
    this.counts = counts;
    this.topics = new Topics(spec);
    SourceSpec.Clock clock = spec.clock();
    this.idleness = new Idleness(clock == null ? 0 : clock.idleTimeoutMs(), System::nanoTime);
    this.alignment = clock == null ? null : new Alignment(clock.group(), clock.driftMs(), this::watermarks);
    this.allowance = new Allowance(spec.rowsPerSecond(), System::nanoTime);
    Lifecycle.open(metadataPath);
  }

  @Override
  public Offset initialOffset() {
    return bounds().start();
  }

  @Override
  public Offset deserializeOffset(String json) {
    return KafkaOffset.parse(json);
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    Long limit = spec.maxRowsPerBatch();
    return limit == null ? ReadLimit.allAvailable() : ReadLimit.maxRows(limit);
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    stopsAtCeiling = true;
    if (!spec.isBounded()) {
      bounds();
      ceiling = KafkaOffset.of(topics.ends(discover()));
    }
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("Spark asks with a limit");
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    bounds();
    KafkaOffset from = KafkaOffset.of(start);
    tell();
    // Spark's start is the end of the last batch that is in its commit log.
    publish(from);
    if (Lifecycle.mustDrain(metadataPath)) {
      return from;
    }
    KafkaOffset next = admit(from, targets(from), limit);
    while (stopsAtCeiling && next.equals(from) && isToWait(from)) {
      // "No news" would end the job.
      pause();
      if (Lifecycle.mustDrain(metadataPath)) {
        return from;
      }
      next = admit(from, targets(from), limit);
    }
    return next;
  }

  @Override
  public Offset reportLatestOffset() {
    return heads.isEmpty() ? null : KafkaOffset.of(heads);
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    KafkaOffset from = KafkaOffset.of(start);
    KafkaOffset to = KafkaOffset.of(end);
    // A batch that is repeated is planned before anything else is asked.
    bounds();
    discover();
    List<String> executors = executors();
    List<KafkaReader.Range> ranges = new ArrayList<>();
    Map<TopicPartition, Boolean> silent = new HashMap<>();
    to.forEach(
        (tp, until) -> {
          Long since = from.get(tp);
          boolean hasNews = since != null && since < until && isSameTopic(from, to, tp.topic());
          if (hasNews && topics.isAnew(to, tp.topic())) {
            if (isFatal(to, tp.topic())) {
              throw Cursor.madeAnew(spec, tp, since);
            }
            hasNews = false;
          }
          if (!hasNews) {
            silent.put(tp, isAtItsEnd(tp, until));
          }
          if (hasNews || spec.everyPartition()) {
            long begin = hasNews ? since : until;
            ranges.add(
                new KafkaReader.Range(
                    tp.topic(),
                    tp.partition(),
                    begin,
                    until,
                    home(executors, tp),
                    isAtItsEnd(tp, until),
                    List.of()));
          }
        });
    return withTime(ranges, silent, to).toArray(new InputPartition[0]);
  }

  /** The same ranges, of which one tells about the partitions that have nothing to read. */
  private List<KafkaReader.Range> withTime(
      List<KafkaReader.Range> ranges, Map<TopicPartition, Boolean> silent, KafkaOffset to) {
    if (spec.clock() == null || silent.isEmpty()) {
      return ranges;
    }
    List<Mark> marks = new ArrayList<>();
    silent.forEach(
        (tp, ended) ->
            marks.add(
                new Mark(
                    spec.clock().of(tp.topic(), tp.partition()),
                    ended ? Mark.END : Mark.NONE,
                    to.time().idle().contains(tp))));
    if (ranges.isEmpty()) {
      TopicPartition any = silent.keySet().iterator().next();
      long at = to.get(any);
      ranges.add(
          new KafkaReader.Range(
              any.topic(), any.partition(), at, at, new String[0], false, List.of()));
    }
    ranges.set(0, ranges.get(0).telling(marks));
    return ranges;
  }

  /** Whether the ceiling is the end of the table: of a run that may be continued it is not. */
  private boolean hasEnd() {
    return spec.isBounded() || stopsAtCeiling && spec.endsWithRun();
  }

  /** Whether a partition of a table that ends has nothing after this offset. */
  private boolean isAtItsEnd(TopicPartition tp, long offset) {
    if (!hasEnd()) {
      return false;
    }
    Long end = ceiling.get(tp);
    return end == null || offset >= end || topics.isGone(tp.topic());
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new KafkaReader.Factory(run, spec, columns, python, counts);
  }

  @Override
  public void commit(Offset end) {
    publish(KafkaOffset.of(end));
  }

  @Override
  public Map<String, String> metrics(Optional<Offset> consumed) {
    // A total, because Spark shows it again when a trigger had nothing to do.
    String read = Long.toString(counts.read().value());
    String inPython = Long.toString(counts.python().value());
    if (consumed.isEmpty() || heads.isEmpty()) {
      return Map.of("records", read, "inPython", inPython);
    }
    KafkaOffset position = KafkaOffset.of(consumed.get());
    TreeMap<String, TreeMap<Integer, Long>> lags = new TreeMap<>();
    long total = 0;
    for (Map.Entry<TopicPartition, Long> head : heads.entrySet()) {
      TopicPartition tp = head.getKey();
      Long at = position.get(tp);
      long lag = at == null ? head.getValue() : Math.max(0, head.getValue() - at);
      lags.computeIfAbsent(tp.topic(), t -> new TreeMap<>()).put(tp.partition(), lag);
      total += lag;
    }
    Map<String, String> all = new HashMap<>();
    all.put("records", read);
    all.put("inPython", inPython);
    all.put("lag", Long.toString(total));
    all.put("partitions", Json.write(lags));
    if (spec.clock() != null) {
      all.put("times", Json.write(timesOf(position)));
    }
    return all;
  }

  /** By topic and partition: the greatest time, the watermark, and whether nobody waits. */
  private TreeMap<String, TreeMap<Integer, Map<String, Object>>> timesOf(KafkaOffset position) {
    Map<TopicPartition, Times.Reading> known = times();
    TreeMap<String, TreeMap<Integer, Map<String, Object>>> told = new TreeMap<>();
    for (TopicPartition tp : heads.keySet()) {
      Map<String, Object> one = new TreeMap<>();
      one.put("idle", position.time().idle().contains(tp));
      Times.Reading reading = known.get(tp);
      if (reading != null && reading.time() != Mark.NONE) {
        one.put("time", reading.time());
      }
      if (reading != null && reading.watermark() != Mark.NONE) {
        one.put("watermark", reading.watermark());
      }
      told.computeIfAbsent(tp.topic(), t -> new TreeMap<>()).put(tp.partition(), one);
    }
    return told;
  }

  @Override
  public void stop() {
    tell();
    topics.close();
    if (alignment != null) {
      alignment.end();
    }
    Cursors.end(run);
  }

  @Override
  public String toString() {
    return "tidemill-kafka[" + spec.table() + ": " + spec.described() + "]";
  }

  private Bounds bounds() {
    if (bounds == null) {
      bounds = Bounds.fix(spec, topics, metadataPath, conf);
      ceiling = bounds.end();
      topics.start();
      Lifecycle.fix(metadataPath);
    }
    return bounds;
  }

  /** Passes on what the tasks of the last batch have to tell the user. */
  private void tell() {
    counts.said().value().forEach(Topics::say);
    counts.said().reset();
  }

  /** Where each partition could be read up to now. */
  private Map<TopicPartition, Long> targets(KafkaOffset from) {
    refreshHeads(from);
    Map<TopicPartition, Long> targets = new HashMap<>();
    Set<TopicPartition> begun = new HashSet<>();
    heads.forEach(
        (tp, head) -> {
          Long at = from.get(tp);
          if (at == null || head < at || topics.isAnew(from, tp.topic())) {
            begun.add(tp);
          } else {
            Long most = ceiling == null ? head : ceiling.get(tp);
            targets.put(tp, most == null ? at : Math.max(at, Math.min(head, most)));
          }
        });
    if (!begun.isEmpty()) {
      Map<TopicPartition, Long> beginnings = topics.beginnings(begun);
      // One that was removed in between is not among them.
      begun.retainAll(beginnings.keySet());
      for (TopicPartition tp : begun) {
        long beginning = beginnings.get(tp);
        Long at = from.get(tp);
        if (at != null && at > 0) {
          lose(from, tp, beginning);
        }
        targets.put(tp, beginning);
      }
    }
    return targets;
  }

  /** What was to be read next is not there, and cannot come. */
  private void lose(KafkaOffset from, TopicPartition tp, long beginning) {
    long at = from.get(tp);
    if (isFatal(from, tp.topic())) {
      throw topics.isAnew(from, tp.topic())
          ? Cursor.madeAnew(spec, tp, at)
          : Cursor.dataLoss(spec, tp, at, beginning, heads.get(tp));
    }
    Topics.say(
        topics.hasSeenRemoved(from, tp.topic())
            ? "table '%s': topic '%s' was made anew; it is read from its beginning"
                .formatted(spec.table(), tp.topic())
            : Cursor.lostText(spec, tp, at, beginning));
  }

  /** Whether a lost position ends the job: not if its topic went while we looked, which is told. */
  private boolean isFatal(KafkaOffset from, String topic) {
    return spec.failsOnDataLoss() && !topics.hasSeenRemoved(from, topic);
  }

  private void refreshHeads(KafkaOffset from) {
    long now = System.nanoTime();
    if (from.equals(headsFor) && now - headsAt < IDLE_NANOS) {
      return;
    }
    Set<TopicPartition> there = discover();
    heads = new HashMap<>(topics.ends(spec.isBounded() ? from.partitions() : there));
    Set<TopicPartition> beyond = beyond(from);
    if (!beyond.isEmpty()) {
      // Beyond the begin of a transaction that is open a position is as good as any other.
      topics.highs(beyond).forEach((tp, high) -> heads.put(tp, Math.min(high, from.get(tp))));
    }
    if (!beyond(from).isEmpty()) {
      // A topic that has become shorter was made anew, perhaps since we have looked.
      known = topics.partitions();
    }
    headsAt = now; // What came while we looked may have been missed.
    headsFor = from;
    idleness.look(heads, from);
  }

  /** Partitions that end before our position. */
  private Set<TopicPartition> beyond(KafkaOffset from) {
    Set<TopicPartition> found = new HashSet<>();
    heads.forEach(
        (tp, head) -> {
          Long at = from.get(tp);
          if (at != null && head < at) {
            found.add(tp);
          }
        });
    return found;
  }

  private static boolean isSameTopic(KafkaOffset from, KafkaOffset to, String topic) {
    String then = from.ids().get(topic);
    return then == null || then.equals(to.ids().get(topic));
  }

  private Set<TopicPartition> discover() {
    long now = System.nanoTime();
    boolean due =
        spec.discoveryIntervalMs() > 0
            && now - discoveredAt > spec.discoveryIntervalMs() * 1_000_000;
    if (known == null || due) {
      known = topics.partitions();
      discoveredAt = now;
    }
    return known;
  }

  private KafkaOffset admit(KafkaOffset from, Map<TopicPartition, Long> targets, ReadLimit limit) {
    Map<TopicPartition, Long> next = from.toMap();
    Map<TopicPartition, Long> backlog = new HashMap<>();
    targets.forEach(
        (tp, target) -> {
          Long at = next.get(tp);
          if (at == null || target < at || topics.isAnew(from, tp.topic())) {
            next.put(tp, target);
          } else {
            backlog.put(tp, target - at);
          }
        });
    long most = limit instanceof ReadMaxRows rows ? rows.maxRows() : Long.MAX_VALUE;
    most = Math.min(most, allowance.of(total(backlog)));
    // Who has read all that there is need not wait for one that is always behind.
    Map<TopicPartition, Long> admitted = new HashMap<>(backlog);
    if (alignment != null && (alignment.isAsked() || total(backlog) > most)) {
      admitted.keySet().removeAll(alignment.waiting(backlog));
    }
    Map<TopicPartition, Long> shares =
        most > 0 ? admission.share(admitted, most, alignment != null) : Map.of();
    shares.forEach((tp, rows) -> next.merge(tp, rows, Long::sum));
    allowance.spend(total(shares));
    if (alignment != null) {
      alignment.plan(backlog, shares);
    }
    Map<String, String> ids = new HashMap<>(from.ids());
    for (TopicPartition tp : targets.keySet()) {
      String id = topics.ids().get(tp.topic());
      if (id != null) {
        ids.put(tp.topic(), id);
      }
    }
    KafkaOffset reached = KafkaOffset.of(next, ids, from.time());
    return spec.clock() == null ? reached : KafkaOffset.of(next, ids, timeAt(reached));
  }

  private static long total(Map<TopicPartition, Long> rows) {
    return rows.values().stream().mapToLong(Long::longValue).sum();
  }

  /** What there is to say of time, beside what is read. */
  private KafkaOffset.Time timeAt(KafkaOffset reached) {
    boolean ended = hasEnd() && isDone(reached);
    long tick = reached.time().tick();
    boolean rings = spec.clock().job() != null && Alarm.rings(spec.clock().job(), System.currentTimeMillis());
    return new KafkaOffset.Time(idleness.idle(reached), ended, rings ? tick + 1 : tick);
  }

  /** How far the partitions have come, as far as this run has seen. */
  private Map<TopicPartition, Long> watermarks() {
    Map<TopicPartition, Long> found = new HashMap<>();
    times().forEach((tp, reading) -> found.put(tp, reading.watermark()));
    return found;
  }

  private Map<TopicPartition, Times.Reading> times() {
    Map<String, Times.Reading> told = counts.times().value();
    Map<TopicPartition, Times.Reading> found = new HashMap<>();
    for (TopicPartition tp : heads.keySet()) {
      Times.Reading reading = told.get(spec.clock().of(tp.topic(), tp.partition()));
      if (reading != null) {
        found.put(tp, reading);
      }
    }
    return found;
  }

  /** Whether there will be more to read: the rate holds it back, or the topic does not have it yet. */
  private boolean isToWait(KafkaOffset from) {
    return allowance.holdsBack() || spec.isBounded() && !isDone(from);
  }

  private boolean isDone(KafkaOffset from) {
    for (Map.Entry<TopicPartition, Long> end : ceiling.toMap().entrySet()) {
      Long at = from.get(end.getKey());
      if (at != null && at < end.getValue() && !topics.isGone(end.getKey().topic())) {
        return false;
      }
    }
    return true;
  }

  private void publish(KafkaOffset offset) {
    if (!offset.equals(published) && !offset.equals(bounds().start())) {
      topics.publish(offset);
      published = offset;
    }
  }

  private static void pause() {
    try {
      Thread.sleep(100);
    } catch (InterruptedException e) {
      throw Clients.sneaky(e);
    }
  }

  /** A partition goes to the same executor in every batch, where its cursor is. */
  private static String[] home(List<String> executors, TopicPartition tp) {
    return executors.isEmpty()
        ? new String[0]
        : new String[] {executors.get(Math.floorMod(tp.hashCode(), executors.size()))};
  }

  private static List<String> executors() {
    var blocks = SparkEnv.get().blockManager();
    TreeSet<String> found = new TreeSet<>();
    Iterator<BlockManagerId> peers =
        blocks.master().getPeers(blocks.blockManagerId()).iterator();
    while (peers.hasNext()) {
      BlockManagerId peer = peers.next();
      // The form in which Spark's scheduler understands one executor and not a whole host.
      found.add("executor_" + peer.host() + "_" + peer.executorId());
    }
    return new ArrayList<>(found);
  }
}
