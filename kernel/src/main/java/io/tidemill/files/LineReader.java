package io.tidemill.files;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.io.compress.CompressionCodecFactory;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.SerializableConfiguration;

/** The lines of one file, without those that are empty. A file is compressed if its name says so. */
final class LineReader implements PartitionReader<InternalRow> {
  /** {@code path}: null for no file at all. */
  record File(String path, long size, long modified) implements InputPartition {}

  record Factory(SerializableConfiguration conf) implements PartitionReaderFactory {
    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      return new LineReader((File) partition, conf);
    }
  }

  private static final int BUFFER = 1 << 16;

  private final File file;
  private final SerializableConfiguration conf;
  private final UnsafeRowWriter writer = new UnsafeRowWriter(5, 256);
  private final ByteArrayOutputStream line = new ByteArrayOutputStream();
  private final UTF8String path;
  private InputStream in;
  private long number;

  private LineReader(File file, SerializableConfiguration conf) {
    this.file = file;
    this.conf = conf;
    this.path = UTF8String.fromString(file.path());
  }

  @Override
  public boolean next() throws IOException {
    if (file.path() == null) {
      return false;
    }
    if (in == null) {
      Path at = new Path(file.path());
      InputStream raw = at.getFileSystem(conf.value()).open(at);
      CompressionCodec codec = new CompressionCodecFactory(conf.value()).getCodec(at);
      in = new BufferedInputStream(codec == null ? raw : codec.createInputStream(raw), BUFFER);
    }
    while (readLine()) {
      number++;
      if (line.size() > 0) {
        return true;
      }
    }
    return false;
  }

  /** Whether there was one more; a line that nothing ends is one too. */
  private boolean readLine() throws IOException {
    line.reset();
    int next = in.read();
    if (next < 0) {
      return false;
    }
    boolean held = false;
    while (next >= 0 && next != '\n') {
      if (held) {
        line.write('\r');
      }
      held = next == '\r';
      if (!held) {
        line.write(next);
      }
      next = in.read();
    }
    return true;
  }

  @Override
  public InternalRow get() {
    writer.reset();
    writer.zeroOutNullBytes();
    writer.write(0, line.toByteArray());
    writer.write(1, number);
    writer.write(2, path);
    writer.write(3, file.size());
    writer.write(4, file.modified() * 1000);
    return writer.getRow();
  }

  @Override
  public void close() throws IOException {
    if (in != null) {
      in.close();
    }
  }
}
