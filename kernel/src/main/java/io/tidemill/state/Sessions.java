package io.tidemill.state;

import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import scala.Tuple2;

/**
 * Sessions: rows of a key that are no more than a gap apart. A row opens a session from its time to the gap after it, or
 * joins those that it touches, which become one.
 *
 * <p>Late, as in Flink, is a row that touches no open session and whose own would be closed; so rows are taken one by
 * one, as they have come.
 *
 * <p>State: the open sessions of a key in one value, and in the timeline one entry for each key, at a time before which
 * none of them ends. It stays where it is while they grow, and is moved when it is due: a session that gets rows in
 * every batch costs one read and one write in each.
 */
abstract class Sessions extends WindowProcessor {
  private static final byte[] NOTHING = {};

  /** An open session. */
  static final class Session {
    long start;
    long end;
    /** What was kept of the sessions that it is made of, in the order of time. */
    final List<byte[]> kept = new ArrayList<>(1);
    /** What has come for it in this batch. */
    final List<byte[]> rows = new ArrayList<>();

    Session(long start, long end) {
      this.start = start;
      this.end = end;
    }
  }

  /** By key, at time 0. */
  private transient Timeline sessions;
  private transient ByteReader in;
  private transient ByteWriter out;
  private transient Changes given;
  /** The open sessions of the key at hand, by their start. */
  private transient TreeMap<Long, Session> open;
  private transient long alarm;
  private transient long pieces;

  Sessions(String name, WindowSpec window, Counts counts) {
    super(name, true, window, counts);
  }

  @Override
  void open(boolean isAtWork) {
    sessions = isAtWork ? newTimeline("sessions") : null;
    in = new ByteReader();
    out = new ByteWriter(256);
    given = new Changes(false);
    open = new TreeMap<>();
  }

  /** A row's time on the wall clock, in milliseconds. */
  abstract long time(byte[] row);

  /** What is to be kept of a session that stays open. */
  abstract byte[] keep(byte[] key, Session session);

  /** Gives what comes of a session that closes, and drops what was kept. */
  abstract void close(byte[] key, Session session, Changes changes);

  /** A number that no other call has got for this key, as long as it has open sessions. */
  final long nextPiece() {
    return pieces++;
  }

  @Override
  final boolean process(byte[] key, ByteReader none, Iterator<byte[]> rows, ByteWriter after, Changes changes) {
    byte[] known = known(sessions, 0, key);
    read(known);
    if (!window.rowtime()) {
      // The clock has gone on since the last batch: what it has closed takes no more rows.
      closeDue(key, clock(), changes);
    }
    while (rows.hasNext()) {
      add(rows.next());
    }
    closeDue(key, now(), changes);
    if (!open.isEmpty()) {
      long first = open.firstEntry().getValue().end;
      if (known == null || first < alarm || isClosed(alarm, now())) {
        moveAlarm(key, known != null, first);
      }
      sessions.put(0, key, written(key));
    } else if (known != null) {
      timeline().remove(alarm, key);
      sessions.remove(0, key);
    }
    return false;
  }

  private void moveAlarm(byte[] key, boolean isSet, long to) {
    if (isSet) {
      timeline().remove(alarm, key);
    }
    timeline().put(to, key, NOTHING);
    alarm = to;
  }

  private void add(byte[] row) {
    long start = time(row);
    Session into = new Session(start, start + window.gap());
    Map.Entry<Long, Session> floor = open.floorEntry(start);
    Map.Entry<Long, Session> ceiling = open.higherEntry(start);
    boolean touchesFloor = floor != null && floor.getValue().end >= start;
    boolean touchesCeiling = ceiling != null && ceiling.getKey() <= into.end;
    if (!touchesFloor && !touchesCeiling && isClosed(into.end, before())) {
      dropLate(row);
      return;
    }
    if (touchesFloor) {
      long end = into.end;
      into = floor.getValue();
      into.end = Math.max(into.end, end);
    }
    if (touchesCeiling) {
      Session later = open.remove(ceiling.getKey());
      into.end = Math.max(into.end, later.end);
      into.kept.addAll(later.kept);
      into.rows.addAll(later.rows);
      into.rows.sort(Header.BY_NUMBER);
    }
    into.rows.add(row);
    open.put(into.start, into);
  }

  private void closeDue(byte[] key, long at, Changes changes) {
    for (Iterator<Session> all = open.values().iterator(); all.hasNext(); ) {
      Session session = all.next();
      if (isClosed(session.end, at)) {
        close(key, session, changes);
        all.remove();
      }
    }
  }

  private void read(byte[] value) {
    open.clear();
    pieces = 0;
    if (value == null) {
      return;
    }
    in.over(value);
    checkVersion(in);
    alarm = in.readFixed64();
    pieces = in.readVarint();
    while (in.hasMore()) {
      long start = in.readFixed64();
      Session session = new Session(start, start + in.readVarint());
      session.kept.add(in.readBytes());
      open.put(start, session);
    }
  }

  private byte[] written(byte[] key) {
    List<byte[]> kept = new ArrayList<>(open.size());
    for (Session session : open.values()) {
      boolean same = session.rows.isEmpty() && session.kept.size() == 1;
      kept.add(same ? session.kept.get(0) : keep(key, session));
    }
    out.reset();
    out.writeByte(VERSION);
    out.writeFixed64(alarm);
    out.writeVarint(pieces);
    int i = 0;
    for (Session session : open.values()) {
      byte[] bytes = kept.get(i++);
      out.writeFixed64(session.start);
      out.writeVarint(session.end - session.start);
      out.writeBytes(bytes, 0, bytes.length);
    }
    return out.toBytes();
  }

  @Override
  final Iterator<Tuple2<byte[], byte[]>> advance() {
    return due(this::ring);
  }

  private Iterator<Tuple2<byte[], byte[]>> ring(Timeline.Entry entry) {
    byte[] key = entry.key();
    read(sessions.get(0, key));
    closeDue(key, now(), given);
    if (open.isEmpty()) {
      timeline().remove(alarm, key);
      sessions.remove(0, key);
    } else {
      moveAlarm(key, true, open.firstEntry().getValue().end);
      waitFor(alarm);
      sessions.put(0, key, written(key));
    }
    List<Tuple2<byte[], byte[]>> closed = given.take();
    return closed.isEmpty() ? Collections.emptyIterator() : closed.iterator();
  }
}
