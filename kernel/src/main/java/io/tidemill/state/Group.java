package io.tidemill.state;

import java.util.Arrays;

/**
 * Where the accumulators of one group are. Accumulators are code and groups are their data: each accumulator owns some
 * slots, words for what fits 64 bits and objects for the rest, all zero or null at first. A map task has very many
 * groups, so they lie side by side in two arrays and this is a view that is {@linkplain #at moved} from one to another.
 */
final class Group {
  private final int wordCount;
  private final int objectCount;
  private long[] words;
  private Object[] objects;
  private int firstWord;
  private int firstObject;

  Group(int wordCount, int objectCount, int capacity) {
    this.wordCount = wordCount;
    this.objectCount = objectCount;
    words = new long[wordCount * capacity];
    objects = new Object[objectCount * capacity];
  }

  Group at(int number) {
    firstWord = number * wordCount;
    firstObject = number * objectCount;
    return this;
  }

  long word(int slot) {
    return words[firstWord + slot];
  }

  void setWord(int slot, long value) {
    words[firstWord + slot] = value;
  }

  void addToWord(int slot, long value) {
    words[firstWord + slot] += value;
  }

  Object object(int slot) {
    return objects[firstObject + slot];
  }

  void setObject(int slot, Object value) {
    objects[firstObject + slot] = value;
  }

  /** Makes the first {@code count} groups new again. */
  void clear(int count) {
    Arrays.fill(words, 0, count * wordCount, 0);
    Arrays.fill(objects, 0, count * objectCount, null);
  }

  void grow(int capacity) {
    words = Arrays.copyOf(words, wordCount * capacity);
    objects = Arrays.copyOf(objects, objectCount * capacity);
  }
}
