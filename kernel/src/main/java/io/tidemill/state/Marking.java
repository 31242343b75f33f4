package io.tidemill.state;

import io.tidemill.time.Mark;
import io.tidemill.time.TaskClock;
import io.tidemill.time.Valve;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.hash.Murmur3_x86_32;
import scala.Tuple2;

/**
 * Watermarks on their way through a shuffle: pairs among the pairs, as Flink sends them among the records. Every task
 * sends every task of the next operator its marks, under a key that is before all others, and another pair whose key is
 * after all others; Spark sorts an operator's input by its keys. So an operator knows how far event time has come before
 * it sees the rows of a batch, and once more when it has seen them all: it needs nothing from the driver, what it knows
 * is in its own state, and a batch that is repeated goes the same way.
 */
final class Marking {
  private static final long FIRST = 0;
  private static final long LAST = -1;
  /** No key of rows has this length: they have no columns, or at least two words. */
  static final int LENGTH = PackedRow.HEADER + Integer.BYTES;
  /** With which Spark hashes the keys of a shuffle. */
  private static final int SEED = 42;
  private static final Map<Integer, byte[][]> KEYS = new ConcurrentHashMap<>();

  private Marking() {}

  /** Whether a hash would put a key among the marks. */
  static boolean isReserved(long hash) {
    return hash == FIRST || hash == LAST;
  }

  static boolean isMark(byte[] key) {
    return key.length == LENGTH;
  }

  static boolean isFirst(byte[] key) {
    return PackedRow.header(key) == FIRST;
  }

  /** The keys of the marks of so many tasks: those that are first, then those that are last. They are looked for once. */
  private static byte[][] keys(int tasks) {
    return KEYS.computeIfAbsent(
        tasks,
        n -> {
          byte[][] keys = new byte[2 * n][];
          for (int task = 0; task < n; task++) {
            keys[task] = key(true, task, n);
            keys[n + task] = key(false, task, n);
          }
          return keys;
        });
  }

  private static byte[] key(boolean first, int task, int tasks) {
    byte[] key = PackedRow.setHeader(new byte[LENGTH], first ? FIRST : LAST);
    for (int i = 0; ; i++) {
      Platform.putInt(key, Platform.BYTE_ARRAY_OFFSET + PackedRow.HEADER, i);
      int hash = Murmur3_x86_32.hashUnsafeBytes(key, Platform.BYTE_ARRAY_OFFSET, LENGTH, SEED);
      if (Math.floorMod(hash, tasks) == task) {
        return key;
      }
    }
  }

  /** The same pairs, then the marks of their task. */
  static Dataset<Tuple2<byte[], byte[]>> marked(Dataset<Tuple2<byte[], byte[]>> pairs, int tasks) {
    MapPartitionsFunction<Tuple2<byte[], byte[]>, Tuple2<byte[], byte[]>> marking =
        rows -> new Marked(rows, tasks);
    return pairs.mapPartitions(marking, Packing.PAIRS);
  }

  private static final class Marked implements Iterator<Tuple2<byte[], byte[]>> {
    private final Iterator<Tuple2<byte[], byte[]>> rows;
    private final int tasks;
    private Iterator<Tuple2<byte[], byte[]>> marks;

    Marked(Iterator<Tuple2<byte[], byte[]>> rows, int tasks) {
      this.rows = rows;
      this.tasks = tasks;
    }

    @Override
    public boolean hasNext() {
      if (marks == null) {
        if (rows.hasNext()) {
          return true;
        }
        marks = pairs(TaskClock.current(), tasks);
      }
      return marks.hasNext();
    }

    @Override
    public Tuple2<byte[], byte[]> next() {
      return marks == null ? rows.next() : marks.next();
    }
  }

  private static Iterator<Tuple2<byte[], byte[]>> pairs(TaskClock clock, int tasks) {
    List<Tuple2<byte[], byte[]>> pairs = new ArrayList<>();
    List<Mark> marks = clock.marks();
    if (!marks.isEmpty()) {
      ByteWriter out = new ByteWriter(64);
      byte[][] keys = keys(tasks);
      byte[] origin = clock.origin().getBytes(StandardCharsets.UTF_8);
      for (int task = 0; task < tasks; task++) {
        out.reset();
        out.writeRaw(Packing.NOTHING, 0, PackedRow.HEADER);
        // Who gets it can tell whether it is meant.
        out.writeVarint(task);
        out.writeVarint(TaskContext.getPartitionId());
        out.writeBytes(origin, 0, origin.length);
        write(marks, out);
        pairs.add(new Tuple2<>(keys[task], out.toBytes()));
        pairs.add(new Tuple2<>(keys[tasks + task], Packing.NOTHING));
      }
    }
    return pairs.iterator();
  }

  private static void write(Iterable<Mark> marks, ByteWriter out) {
    for (Mark mark : marks) {
      byte[] channel = mark.channel().getBytes(StandardCharsets.UTF_8);
      out.writeBytes(channel, 0, channel.length);
      out.writeFixed64(mark.watermark());
      out.writeByte(mark.idle() ? 1 : 0);
    }
  }

  private static void read(ByteReader in, Valve valve) {
    while (in.hasMore()) {
      String channel = new String(in.readBytes(), StandardCharsets.UTF_8);
      long watermark = in.readFixed64();
      valve.set(new Mark(channel, watermark, in.readByte() != 0));
    }
  }

  /** A task whose rows come to an operator, and where it has them from: a topic and a partition, or empty. */
  record Sender(int task, String origin) {}

  /** Takes what a task of the operator before has sent. */
  static Sender take(byte[] sent, int task, ByteReader in, Valve valve) {
    in.over(sent, PackedRow.HEADER, sent.length - PackedRow.HEADER);
    long meant = in.readVarint();
    if (meant != task) {
      throw new IllegalStateException("watermarks for task " + meant + " came to task " + task);
    }
    Sender sender = new Sender((int) in.readVarint(), new String(in.readBytes(), StandardCharsets.UTF_8));
    read(in, valve);
    return sender;
  }

  static void write(Valve valve, ByteWriter out) {
    out.writeFixed64(valve.watermark());
    write(valve.marks(), out);
  }

  static Valve read(ByteReader in) {
    Valve valve = new Valve();
    long reached = in.readFixed64();
    read(in, valve);
    valve.restore(reached);
    return valve;
  }
}
