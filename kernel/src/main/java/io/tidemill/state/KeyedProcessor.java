package io.tidemill.state;

import io.tidemill.time.Mark;
import io.tidemill.time.TaskClock;
import io.tidemill.time.Valve;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Consumer;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.statefulprocessor.ImplicitGroupingKeyTracker;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.statefulprocessor.StatefulProcessorHandleImpl;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What all keyed operators have in common: packed (key, row) → shuffle by key → state → packed pairs. An operator says
 * what becomes of the state of one key when the rows of a batch come for it, and what changes leave.
 *
 * <p>Laws: per key and batch, state is read once and written at most once. What leaves for a key is a function of its
 * state and of the rows that came for it, in the order of their numbers; so a replayed batch gives the same rows in the
 * same order. What leaves is the net change: rows that are put in and taken out within a batch are not seen.
 *
 * <p>A value begins with a byte of version, then, if it is forgotten some time, comes the time of this write, then what
 * the operator writes. Values that have become large keep
 * their parts in {@link Pages}.
 */
abstract class KeyedProcessor extends StatefulProcessor<byte[], Tuple2<byte[], byte[]>, Tuple2<byte[], byte[]>> {
  private static final String STATE = "state";
  private static final String WATERMARK = "watermark";
  private static final int STATE_VERSION = 1;
  /** Beside the version: whether the time of the last write comes next. */
  private static final int STAMPED = 0x80;

  private final String name;
  private final boolean updateBefore;
  private final boolean ordered;
  private Expiry expiry = Expiry.NEVER;
  /** Null where time says nothing. */
  private TimeSpec time;
  /** Null where no row is late. */
  private Counts late;
  private StructType[] inputs = {};

  private transient Values state;
  /** Whether there was no state at all when the batch began; a key comes once in a batch. */
  private transient boolean blank;
  private transient MapState<Long, byte[]> map;
  private transient ByteReader reader;
  private transient ByteWriter writer;
  private transient Changes changes;
  private transient boolean isLeft;

  private transient Store store;
  private transient Values watermarks;
  private transient Timeline timeline;
  /** The watermark before and after the rows of this batch; null as long as it is not known. */
  private transient Moment moment;
  private transient LateRows lateRows;

  /** Event time as one batch sees it: rows up to {@code before} come late, and what is due at {@code now} is done. */
  record Moment(long before, long now) {}

  /** {@code ordered}: whether rows are numbered, and handed over by their numbers. */
  KeyedProcessor(String name, boolean updateBefore, boolean ordered) {
    this.name = name;
    this.updateBefore = updateBefore;
    this.ordered = ordered;
  }

  /**
   * Sets up what one task needs. {@code pages} are always those of the key that is being processed; they can be used
   * where the operator says that it is paged.
   */
  abstract void open(Pages pages);

  final KeyedProcessor expiring(Expiry after) {
    expiry = after;
    return this;
  }

  /** {@code spec}: null if the operator has nothing to do with time. */
  final KeyedProcessor timed(TimeSpec spec) {
    time = spec;
    return this;
  }

  /**
   * The same of an operator to which rows may come too late, which {@code counts} is told.
   *
   * @param rows the columns of the rows of each input
   */
  final KeyedProcessor timed(TimeSpec spec, Counts counts, StructType... rows) {
    late = counts;
    inputs = rows;
    return timed(spec);
  }

  /** A row, or a delta that stands for so many, is late and is dropped. */
  final void dropLate(byte[] row, long rows) {
    lateRows.drop(row, rows, moment.before(), this::eventTime);
  }

  final void dropLate(byte[] row) {
    dropLate(row, 1);
  }

  /** A row is late and is taken all the same. */
  final void countLate(byte[] row) {
    lateRows.count(row, 1);
  }

  /** The time of a row that is late, in milliseconds. */
  long eventTime(byte[] row) {
    throw new UnsupportedOperationException(name);
  }

  /** Whether deltas come to this operator, and not rows. */
  boolean takesDeltas() {
    return false;
  }

  /** Event time, to an operator that is timed. */
  final Moment moment() {
    return moment;
  }

  /** The machine's time, in milliseconds: that of the batch, which is the same when it is repeated. */
  final long clock() {
    return store.batchTime();
  }

  /** What the keys of this task have at some time; to an operator that asks for it. */
  final Timeline timeline() {
    return timeline;
  }

  /** Another one. */
  final Timeline newTimeline(String variable) {
    return new Timeline(store, variable);
  }

  boolean hasTimeline() {
    return false;
  }

  /** Does what has become due, after the rows of a batch. What it gives is read to its end. */
  java.util.Iterator<Tuple2<byte[], byte[]>> advance() {
    return java.util.Collections.emptyIterator();
  }

  /** What may still come of this operator is not before this; {@code watermark} is its own. */
  long held(long watermark) {
    return watermark;
  }

  /** Whether state is forgotten some time: then equal rows are sent again, to keep state alive that comes after. */
  final boolean expires() {
    return expiry.isOn();
  }

  /** Whether a key's state must not be forgotten now, however old it is. */
  boolean waits(ByteReader state) {
    return false;
  }

  /** Has a key for which no rows have come in this batch processed, with none; what leaves. */
  final List<Tuple2<byte[], byte[]>> wake(byte[] key) {
    // What `advance` gives may be read outside of any key.
    Option<Object> other = ImplicitGroupingKeyTracker.getImplicitKeyOption();
    ImplicitGroupingKeyTracker.setImplicitKey(key);
    try {
      return process(key, java.util.Collections.emptyIterator());
    } finally {
      if (other.isDefined()) {
        ImplicitGroupingKeyTracker.setImplicitKey(other.get());
      } else {
        ImplicitGroupingKeyTracker.removeImplicitKey();
      }
    }
  }

  /** Told by {@link #process}: these rows write nothing, so that the key's state is as old as it was. */
  final void leave() {
    isLeft = true;
  }

  /** Whether a value may need pages. */
  abstract boolean isPaged();

  /**
   * Takes the rows of one key and batch; none, if the key is {@linkplain #wake woken}.
   *
   * @param before what {@code after} was the last time, or null for a key without state
   * @return whether the key still has state
   */
  abstract boolean process(
      byte[] key, ByteReader before, java.util.Iterator<byte[]> rows, ByteWriter after, Changes changes);

  /** The columns of what {@link #show} gives; none if it gives nothing. */
  StructType kept() {
    return new StructType();
  }

  /** Gives the rows that a key's state holds, packed, to one who looks into a checkpoint. */
  void show(ByteReader state, Consumer<byte[]> rows) {}

  /** Sets up for {@link #look} alone, outside of a query. */
  final void openToLook(Pages pages) {
    reader = new ByteReader();
    open(pages);
  }

  final void look(byte[] value, Consumer<byte[]> rows) {
    show(opened(value), rows);
  }

  final Dataset<Tuple2<byte[], byte[]>> over(Dataset<Tuple2<byte[], byte[]>> pairs) {
    Dataset<Tuple2<byte[], byte[]>> given =
        (time == null ? pairs : Marking.marked(pairs, time.tasks()))
            .groupBy("_1")
            .as(Encoders.BINARY(), Packing.PAIRS)
            .transformWithState(this, TimeMode.None(), OutputMode.Append(), Packing.PAIRS, Packing.PAIRS);
    return hasLetters() ? Letters.sent(given, time.letters(), List.of(inputs)) : given;
  }

  private boolean hasLetters() {
    return late != null && TimeSpec.hasLetters(time);
  }

  @Override
  public final void init(OutputMode outputMode, TimeMode timeMode) {
    reader = new ByteReader();
    writer = new ByteWriter(256);
    changes = new Changes(updateBefore);
    lateRows = late == null ? null : new LateRows(late, hasLetters(), takesDeltas());
    if (isPaged()) {
      map = getHandle().getMapState("pages", Encoders.LONG(), Encoders.BINARY(), TTLConfig.NONE());
    }
    // The driver asks for the names of state variables, too: there is no store then.
    boolean isAtWork = getHandle() instanceof StatefulProcessorHandleImpl;
    if (isAtWork) {
      store = new Store((StatefulProcessorHandleImpl) getHandle());
      state = new Values(store, STATE);
      watermarks = time == null ? null : new Values(store, WATERMARK);
      timeline = hasTimeline() ? new Timeline(store, "timeline") : null;
    } else {
      getHandle().getValueState(STATE, Encoders.BINARY(), TTLConfig.NONE());
      if (time != null) {
        getHandle().getValueState(WATERMARK, Encoders.BINARY(), TTLConfig.NONE());
      }
    }
    open(pages());
    if (isAtWork) {
      if (expiry.isOn()) {
        expiry.begin(store);
        expiry.sweep(store, STATE, this::written, this::forget);
      }
      blank = store.isEmpty(STATE);
    }
  }

  /** Of a key that is the implicit one of Spark's state variables. */
  private void forget(byte[] key) {
    state.remove(key);
    if (map != null) {
      map.clear();
    }
  }

  /** When a value was last written; one that waits, or was written before state had a time to live, counts from now on. */
  private long written(byte[] value) {
    reader.over(value);
    long written = (reader.readByte() & STAMPED) == 0 ? expiry.now() : reader.readFixed64();
    return waits(reader) ? expiry.now() : written;
  }

  private boolean isWritten(byte[] before) {
    return before != null && Arrays.equals(before, 0, before.length, writer.buffer(), 0, writer.size());
  }

  /** A value that was written before state had a time to live gets a stamp in any case. */
  private boolean mayStay(byte[] before) {
    return isLeft && before != null && (!expiry.isOn() || (before[0] & STAMPED) != 0);
  }

  private Pages pages() {
    return new Pages() {
      @Override
      public byte[] get(long page) {
        return map.getValue(page);
      }

      @Override
      public void put(long page, byte[] content) {
        map.updateValue(page, content);
      }

      @Override
      public void remove(long page) {
        map.removeKey(page);
      }

      @Override
      public Expiry expiry() {
        return expiry;
      }
    };
  }

  @Override
  public final Iterator<Tuple2<byte[], byte[]>> handleInputRows(
      byte[] key, Iterator<Tuple2<byte[], byte[]>> pairs, TimerValues timers) {
    if (time != null) {
      if (Marking.isMark(key)) {
        return CollectionConverters.asScala(Marking.isFirst(key) ? begin(key, pairs) : advance());
      }
      if (moment == null) {
        throw new IllegalStateException(name + ": rows came without watermarks");
      }
    }
    return CollectionConverters.asScala(process(key, rows(pairs)).iterator());
  }

  private List<Tuple2<byte[], byte[]>> process(byte[] key, java.util.Iterator<byte[]> rows) {
    // RocksDB answers for a key that it does not have by a C++ exception, which costs more than a value.
    byte[] before = blank ? null : state.get(key);
    if (before != null && expiry.isOver(written(before))) {
      forget(key);
      before = null;
    }
    isLeft = false;
    writer.reset();
    writer.writeByte(expiry.isOn() ? STATE_VERSION | STAMPED : STATE_VERSION);
    if (expiry.isOn()) {
      writer.writeFixed64(expiry.now());
    }
    if (!process(key, before == null ? null : opened(before), rows, writer, changes)) {
      if (before != null) {
        state.remove(key);
      }
    } else if (!mayStay(before) && !isWritten(before)) {
      state.put(key, writer, before == null);
    }
    if (lateRows == null) {
      return changes.take();
    }
    lateRows.close();
    return lateRows.after(changes.take());
  }

  private java.util.Iterator<Tuple2<byte[], byte[]>> begin(byte[] key, Iterator<Tuple2<byte[], byte[]>> marks) {
    byte[] known = watermarks.get(key);
    Valve valve = known == null ? new Valve() : Marking.read(opened(known));
    long before = valve.watermark();
    while (marks.hasNext()) {
      Marking.Sender sender = Marking.take(marks.next()._2(), store.partition(), reader, valve);
      if (lateRows != null) {
        lateRows.comesFrom(sender);
      }
    }
    moment = new Moment(before, valve.advance());
    writer.reset();
    writer.writeByte(STATE_VERSION);
    Marking.write(valve, writer);
    if (!isWritten(known)) {
      watermarks.put(key, writer, known == null);
    }
    String channel = time.channel() + "/" + store.partition();
    TaskClock.current().tell(new Mark(channel, held(moment.now()), valve.isIdle()));
    return java.util.Collections.emptyIterator();
  }

  private ByteReader opened(byte[] bytes) {
    reader.over(bytes);
    int version = reader.readByte();
    if ((version & STAMPED) != 0) {
      reader.readFixed64();
    }
    checkVersion(version & ~STAMPED, STATE_VERSION);
    return reader;
  }

  final void checkVersion(int found, int known) {
    if (found != known) {
      throw new IllegalStateException(
          name + ": state version " + found + " was written by another release of Tidemill");
    }
  }

  private byte[] opened(Tuple2<byte[], byte[]> pair) {
    return lateRows == null ? pair._2() : lateRows.opened(pair._2());
  }

  private java.util.Iterator<byte[]> rows(Iterator<Tuple2<byte[], byte[]>> pairs) {
    byte[] first = opened(pairs.next());
    if (!pairs.hasNext()) {
      return List.of(first).iterator();
    }
    List<byte[]> rows = new ArrayList<>();
    rows.add(first);
    while (pairs.hasNext()) {
      rows.add(opened(pairs.next()));
    }
    if (ordered) {
      rows.sort(Header.BY_NUMBER);
    }
    return rows.iterator();
  }
}
