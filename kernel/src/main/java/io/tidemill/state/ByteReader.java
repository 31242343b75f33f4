package io.tidemill.state;

import java.util.Arrays;

/** Reads what {@link ByteWriter} wrote. Torn bytes are an error that says so, never a wrong number. */
final class ByteReader {
  private byte[] buffer;
  private int position;
  private int limit;

  ByteReader over(byte[] bytes) {
    return over(bytes, 0, bytes.length);
  }

  ByteReader over(byte[] bytes, int from, int length) {
    buffer = bytes;
    position = from;
    limit = from + length;
    return this;
  }

  byte[] buffer() {
    return buffer;
  }

  int position() {
    return position;
  }

  boolean hasMore() {
    return position < limit;
  }

  int readByte() {
    need(1);
    return buffer[position++] & 0xFF;
  }

  long readVarint() {
    long value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      need(1);
      byte next = buffer[position++];
      value |= (next & 0x7FL) << shift;
      if (next >= 0) {
        return value;
      }
    }
    throw new IllegalStateException("state bytes are damaged: a number does not end");
  }

  /** A length or a count of things that this machine can hold. */
  int readLength() {
    long length = readVarint();
    if (length < 0 || length > Integer.MAX_VALUE) {
      throw new IllegalStateException("state bytes are damaged: length " + length);
    }
    return (int) length;
  }

  long readZigzag() {
    long value = readVarint();
    return (value >>> 1) ^ -(value & 1);
  }

  long readFixed64() {
    need(8);
    long value = 0;
    for (int shift = 0; shift < 64; shift += 8) {
      value |= (buffer[position++] & 0xFFL) << shift;
    }
    return value;
  }

  byte[] readBytes() {
    int length = readLength();
    int from = skip(length);
    return Arrays.copyOfRange(buffer, from, from + length);
  }

  byte[] readRest() {
    int from = skip(limit - position);
    return Arrays.copyOfRange(buffer, from, limit);
  }

  /** Steps over {@code length} bytes and returns where they begin. */
  int skip(int length) {
    need(length);
    int from = position;
    position += length;
    return from;
  }

  private void need(int length) {
    if (length > limit - position) {
      throw new IllegalStateException(
          "state bytes are damaged: " + length + " more expected, " + (limit - position) + " there");
    }
  }
}
