package io.tidemill.state;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * What a join gives for one key and batch: rows that come and rows that go, in any order; what is left of them leaves.
 * Equal rows that come and go cancel out. A row that goes and one that comes with the same update key are an update.
 */
final class JoinedRows {
  /** A row of the left side, one of the right; null is the row of NULLs. */
  private static final class Item {
    final byte[] left;
    final byte[] right;
    long count;

    Item(byte[] left, byte[] right, long count) {
      this.left = left;
      this.right = right;
      this.count = count;
    }

    boolean equalRow(Item other) {
      return same(left, other.left) && same(right, other.right);
    }

    private static boolean same(byte[] a, byte[] b) {
      return a == b || a != null && Arrays.equals(a, b);
    }
  }

  private record Bytes(byte[] bytes) {
    @Override
    public int hashCode() {
      return Arrays.hashCode(bytes);
    }

    @Override
    public boolean equals(Object other) {
      return other instanceof Bytes that && Arrays.equals(bytes, that.bytes);
    }
  }

  /** {@code times} a row that comes, in place of another one or by itself. */
  private record Step(Item before, Item after, long times) {}

  private static final byte[] NO_ROW = {};

  private final boolean half;
  private final boolean updates;
  private final boolean deletes;
  private final boolean keyed;
  /** Which columns of a side are in the update key; null: none. */
  private final Part leftKey;
  private final Part rightKey;
  private final ByteWriter scratch = new ByteWriter(256);
  private final List<Item> items = new ArrayList<>();
  private boolean comes;
  private boolean goes;
  private byte[] lastLeft;
  private byte[] lastFirst;

  /**
   * @param half whether the result has the left side's columns only
   * @param updates whether an update may leave as one
   * @param deletes whether a row may leave as a delete; else it is the row before an update, if anybody asks for those
   * @param keyed whether there is an update key; one without columns is the same for all rows
   */
  JoinedRows(
      boolean half, boolean updates, boolean deletes, boolean keyed, Part leftKey, Part rightKey) {
    this.half = half;
    this.updates = updates;
    this.deletes = deletes;
    this.keyed = keyed;
    this.leftKey = leftKey;
    this.rightKey = rightKey;
  }

  void add(byte[] left, byte[] right, long count) {
    items.add(new Item(left, right, count));
    comes |= count > 0;
    goes |= count < 0;
  }

  void leave(Changes changes) {
    if (items.isEmpty()) {
      return;
    }
    if (!comes || !goes) {
      items.forEach(item -> leave(item, changes));
    } else {
      leave(groups(), changes);
    }
    items.clear();
    comes = false;
    goes = false;
    lastLeft = null;
    lastFirst = null;
  }

  private Iterable<List<Item>> groups() {
    if (items.size() == 2) {
      Item one = items.get(0);
      Item two = items.get(1);
      return Arrays.equals(key(one), key(two)) ? List.of(items) : List.of(List.of(one), List.of(two));
    }
    Map<Bytes, List<Item>> groups = new LinkedHashMap<>();
    for (Item item : items) {
      groups.computeIfAbsent(new Bytes(key(item)), key -> new ArrayList<>(2)).add(item);
    }
    return groups.values();
  }

  /** The update key, or the whole row where there is none. */
  private byte[] key(Item item) {
    scratch.reset();
    if (leftKey != null || !keyed) {
      write(item.left, leftKey);
    }
    if (rightKey != null || !keyed) {
      write(item.right, rightKey);
    }
    return scratch.toBytes();
  }

  private void write(byte[] row, Part part) {
    scratch.writeByte(row == null ? 0 : 1);
    if (row != null) {
      byte[] bytes = part == null ? row : part.of(row);
      scratch.writeBytes(bytes, 0, bytes.length);
    }
  }

  /** Rows that go leave first, so that what stands for them under another key comes after. */
  private void leave(Iterable<List<Item>> groups, Changes changes) {
    List<Step> steps = new ArrayList<>();
    for (List<Item> group : groups) {
      List<Item> net = net(group);
      if (updates && keyed) {
        pair(net, steps);
      }
      for (Item item : net) {
        if (item.count < 0) {
          leave(item, changes);
        } else if (item.count > 0) {
          steps.add(new Step(null, item, item.count));
        }
      }
    }
    for (Step step : steps) {
      for (long n = 0; n < step.times; n++) {
        if (step.before == null) {
          add(Header.INSERT, step.after, changes);
          continue;
        }
        if (changes.updateBefore()) {
          add(Header.UPDATE_BEFORE, step.before, changes);
        }
        add(Header.UPDATE_AFTER, step.after, changes);
      }
    }
  }

  /** The different rows of a group, each once; a count may be 0. */
  private static List<Item> net(List<Item> group) {
    if (group.size() == 1) {
      return group;
    }
    List<Item> net = new ArrayList<>(group.size());
    for (Item item : group) {
      Item known = null;
      for (int i = 0; i < net.size() && known == null; i++) {
        known = net.get(i).equalRow(item) ? net.get(i) : null;
      }
      if (known == null) {
        net.add(item);
      } else {
        known.count += item.count;
      }
    }
    return net;
  }

  private static void pair(List<Item> net, List<Step> steps) {
    int to = 0;
    for (Item before : net) {
      while (before.count < 0) {
        while (to < net.size() && net.get(to).count <= 0) {
          to++;
        }
        if (to == net.size()) {
          return;
        }
        Item after = net.get(to);
        long times = Math.min(-before.count, after.count);
        before.count += times;
        after.count -= times;
        steps.add(new Step(before, after, times));
      }
    }
  }

  private void leave(Item item, Changes changes) {
    int kind = item.count > 0 ? Header.INSERT : deletes ? Header.DELETE : Header.UPDATE_BEFORE;
    if (kind == Header.UPDATE_BEFORE && !changes.updateBefore()) {
      return;
    }
    for (long n = Math.abs(item.count); n > 0; n--) {
      add(kind, item, changes);
    }
  }

  private void add(int kind, Item item, Changes changes) {
    if (half) {
      changes.add(kind, Packing.NOTHING, packed(item.left));
      return;
    }
    if (lastFirst == null || lastLeft != item.left) {
      lastLeft = item.left;
      lastFirst = packed(item.left);
    }
    changes.add(kind, lastFirst, packed(item.right));
  }

  private static byte[] packed(byte[] row) {
    return PackedRow.withHeader(0, row == null ? NO_ROW : row);
  }
}
