package io.tidemill.state;

import java.util.Arrays;

/** A growing byte buffer with the few number forms that state is written in; read back by {@link ByteReader}. */
final class ByteWriter {
  private byte[] buffer;
  private int size;

  ByteWriter(int capacity) {
    buffer = new byte[capacity];
  }

  void reset() {
    size = 0;
  }

  int size() {
    return size;
  }

  byte[] buffer() {
    return buffer;
  }

  byte[] toBytes() {
    return Arrays.copyOf(buffer, size);
  }

  void writeByte(int value) {
    reserve(1);
    buffer[size++] = (byte) value;
  }

  /** Seven bits a byte, low bits first; meant for lengths and counts, any 64-bit word is accepted. */
  void writeVarint(long value) {
    reserve(10);
    while ((value & ~0x7FL) != 0) {
      buffer[size++] = (byte) (value | 0x80);
      value >>>= 7;
    }
    buffer[size++] = (byte) value;
  }

  /** A signed number: small magnitudes of either sign stay short. */
  void writeZigzag(long value) {
    writeVarint((value << 1) ^ (value >> 63));
  }

  void writeFixed64(long value) {
    reserve(8);
    for (int shift = 0; shift < 64; shift += 8) {
      buffer[size++] = (byte) (value >>> shift);
    }
  }

  void writeRaw(byte[] bytes, int from, int length) {
    reserve(length);
    System.arraycopy(bytes, from, buffer, size, length);
    size += length;
  }

  void writeBytes(byte[] bytes, int from, int length) {
    writeVarint(length);
    writeRaw(bytes, from, length);
  }

  private void reserve(int more) {
    if (size + more > buffer.length) {
      buffer = Arrays.copyOf(buffer, Math.max(size + more, buffer.length * 2));
    }
  }
}
