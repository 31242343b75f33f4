package io.tidemill.state;

import java.util.Collections;
import java.util.Iterator;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/**
 * Windows whose rows know them: start and end are part of the key. What a window keeps lies in the timeline at its end,
 * and leaves it when the window closes. One that opens and closes within a batch leaves no trace in state.
 */
abstract class KeyedWindows extends WindowProcessor {
  private final int width;
  private final int endColumn;

  private transient UnsafeRow keyRow;
  private transient Changes given;
  /** The end of the window for which rows are late. */
  private transient long closed;

  /** {@code window}: its time is the column of the window's end, among {@code keys}. */
  KeyedWindows(String name, StructType keys, WindowSpec window, Counts counts) {
    super(name, true, window, counts);
    this.width = keys.size();
    this.endColumn = keys.fieldIndex(window.time());
  }

  @Override
  void open(boolean isAtWork) {
    keyRow = new UnsafeRow(width);
    given = new Changes(false);
  }

  @Override
  final long eventTime(byte[] row) {
    return window.time(closed);
  }

  /** The columns of a key. */
  final UnsafeRow columns(byte[] key) {
    return PackedRow.point(keyRow, key);
  }

  /**
   * Takes rows for a window that stays open.
   *
   * @param known what this gave the last time, or null
   */
  abstract byte[] keep(long end, byte[] key, byte[] known, Iterator<byte[]> rows);

  /** Gives what comes of a window that closes; {@code known} may be null, or there may be no more rows. */
  abstract void close(long end, byte[] key, byte[] known, Iterator<byte[]> rows, Changes changes);

  @Override
  final boolean process(byte[] key, ByteReader none, Iterator<byte[]> rows, ByteWriter after, Changes changes) {
    long end = Slice.milliseconds(columns(key).getLong(endColumn));
    if (isClosed(end, before())) {
      closed = end;
      rows.forEachRemaining(this::dropLate);
      return false;
    }
    byte[] known = known(timeline(), end, key);
    if (isClosed(end, now())) {
      close(end, key, known, rows, changes);
      if (known != null) {
        timeline().take(end, key);
      }
    } else {
      timeline().put(end, key, keep(end, key, known, rows), known == null);
    }
    return false;
  }

  @Override
  final Iterator<Tuple2<byte[], byte[]>> advance() {
    return due(
        entry -> {
          close(entry.time(), entry.key(), entry.value(), Collections.emptyIterator(), given);
          timeline().take(entry.time(), entry.key());
          return given.take().iterator();
        });
  }
}
