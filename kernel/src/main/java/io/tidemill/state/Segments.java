package io.tidemill.state;

/**
 * Rows that wait under a key, in pieces of one batch each: a batch adds a piece and reads none of those before it.
 */
final class Segments {
  private final Timeline line;

  Segments(Timeline line) {
    this.line = line;
  }

  byte[] get(long time, byte[] key, long number) {
    return line.get(time, numbered(key, number));
  }

  void put(long time, byte[] key, long number, byte[] content) {
    line.put(time, numbered(key, number), content);
  }

  void remove(long time, byte[] key, long number) {
    line.remove(time, numbered(key, number));
  }

  private static byte[] numbered(byte[] key, long number) {
    ByteWriter out = new ByteWriter(key.length + Long.BYTES);
    out.writeRaw(key, 0, key.length);
    out.writeFixed64(number);
    return out.toBytes();
  }
}
