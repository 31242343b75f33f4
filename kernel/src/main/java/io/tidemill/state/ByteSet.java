package io.tidemill.state;

import java.util.Arrays;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.unsafe.Platform;

/**
 * A set of byte strings in insertion order. The strings lie one after another in one array, each behind its length, so
 * that the array is at the same time the stored form: writing a set is a copy, and reading one is a copy and an index.
 */
final class ByteSet {
  /** The hash decides in which stored bucket a value lies, so neither it nor its seed may ever change. */
  private static final long SEED = 42L;

  private byte[] arena = new byte[64];
  private int used;
  private int size;
  // Slot -> position in the arena plus one (0: free), and the upper half of the hash of what lies there.
  private int[] slots = new int[8];
  private int[] tags = new int[8];

  static long hash(byte[] bytes, int from, int length) {
    return XXH64.hashUnsafeBytes(bytes, Platform.BYTE_ARRAY_OFFSET + from, length, SEED);
  }

  int size() {
    return size;
  }

  byte[] arena() {
    return arena;
  }

  int arenaSize() {
    return used;
  }

  void clear() {
    used = 0;
    size = 0;
    Arrays.fill(slots, 0);
  }

  /** Takes the place of the content by a stored form whose strings differ from each other. */
  void load(byte[] bytes, int from, int length) {
    clear();
    reserve(length);
    System.arraycopy(bytes, from, arena, 0, length);
    used = length;
    ByteReader reader = new ByteReader().over(arena, 0, length);
    while (reader.hasMore()) {
      int entry = reader.position();
      int valueLength = reader.readLength();
      int value = reader.skip(valueLength);
      int tag = (int) (hash(arena, value, valueLength) >>> 32);
      growIfFull();
      int slot = tag & (slots.length - 1);
      while (slots[slot] != 0) {
        slot = (slot + 1) & (slots.length - 1);
      }
      slots[slot] = entry + 1;
      tags[slot] = tag;
      size++;
    }
  }

  boolean add(byte[] bytes, int from, int length) {
    return add(bytes, from, length, hash(bytes, from, length));
  }

  /** Adds a string whose hash the caller has; false if it was there. */
  boolean add(byte[] bytes, int from, int length, long hash) {
    growIfFull();
    int tag = (int) (hash >>> 32);
    int slot = tag & (slots.length - 1);
    while (slots[slot] != 0) {
      if (tags[slot] == tag && holds(slots[slot] - 1, bytes, from, length)) {
        return false;
      }
      slot = (slot + 1) & (slots.length - 1);
    }
    slots[slot] = used + 1;
    tags[slot] = tag;
    append(bytes, from, length);
    return true;
  }

  /** Appends a string that is known to be new, without indexing it; the set may then only be written. */
  void append(byte[] bytes, int from, int length) {
    reserve(5 + length);
    int rest = length;
    while ((rest & ~0x7F) != 0) {
      arena[used++] = (byte) (rest | 0x80);
      rest >>>= 7;
    }
    arena[used++] = (byte) rest;
    System.arraycopy(bytes, from, arena, used, length);
    used += length;
    size++;
  }

  private boolean holds(int entry, byte[] bytes, int from, int length) {
    int valueLength = 0;
    int shift = 0;
    byte next;
    do {
      next = arena[entry++];
      valueLength |= (next & 0x7F) << shift;
      shift += 7;
    } while (next < 0);
    return valueLength == length
        && Arrays.equals(arena, entry, entry + length, bytes, from, from + length);
  }

  private void growIfFull() {
    if (size * 2 < slots.length) {
      return;
    }
    int[] oldSlots = slots;
    int[] oldTags = tags;
    slots = new int[oldSlots.length * 2];
    tags = new int[slots.length];
    for (int i = 0; i < oldSlots.length; i++) {
      if (oldSlots[i] != 0) {
        int slot = oldTags[i] & (slots.length - 1);
        while (slots[slot] != 0) {
          slot = (slot + 1) & (slots.length - 1);
        }
        slots[slot] = oldSlots[i];
        tags[slot] = oldTags[i];
      }
    }
  }

  private void reserve(int more) {
    if (used + more > arena.length) {
      arena = Arrays.copyOf(arena, Math.max(used + more, arena.length * 2));
    }
  }
}
