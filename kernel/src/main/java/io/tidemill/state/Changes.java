package io.tidemill.state;

import java.util.ArrayList;
import java.util.List;
import scala.Tuple2;

/**
 * The changes that leave an operator for one key and batch, in order. Rows handed in are packed, and their headers are
 * overwritten: who keeps a row hands in a copy.
 */
final class Changes {
  private final boolean updateBefore;
  private List<Tuple2<byte[], byte[]>> pairs = new ArrayList<>();

  /** {@code updateBefore}: whether anybody needs the row that an update replaces. */
  Changes(boolean updateBefore) {
    this.updateBefore = updateBefore;
  }

  void add(int kind, byte[] first, byte[] row) {
    pairs.add(new Tuple2<>(first, PackedRow.setHeader(row, kind)));
  }

  void insert(byte[] first, byte[] row) {
    add(Header.INSERT, first, row);
  }

  void delete(byte[] first, byte[] row) {
    add(Header.DELETE, first, row);
  }

  void update(byte[] first, byte[] before, byte[] after) {
    if (updateBefore) {
      add(Header.UPDATE_BEFORE, first, before);
    }
    add(Header.UPDATE_AFTER, first, after);
  }

  boolean updateBefore() {
    return updateBefore;
  }

  /** What was added since the last call. */
  List<Tuple2<byte[], byte[]>> take() {
    if (pairs.isEmpty()) {
      return List.of();
    }
    List<Tuple2<byte[], byte[]>> taken = pairs;
    pairs = new ArrayList<>();
    return taken;
  }
}
