package io.tidemill.state;

import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.execution.streaming.state.NoPrefixKeyStateEncoderSpec;
import org.apache.spark.sql.types.StructType;

/**
 * A state variable with one value for each key: what Spark's ValueState of bytes keeps, byte for byte, without its
 * encoders, which are made anew for every task and copy key and value twice.
 */
final class Values {
  private static final StructType BYTES = Encoders.BINARY().schema();
  private static final NoPrefixKeyStateEncoderSpec BY_KEY = new NoPrefixKeyStateEncoderSpec(BYTES);

  private final Store store;
  private final String name;
  private final UnsafeRowWriter keys = new UnsafeRowWriter(1, 64);
  private final UnsafeRowWriter values = new UnsafeRowWriter(1, 256);

  Values(Store store, String name) {
    this.store = store;
    this.name = name;
    store.create(name, BYTES, BYTES, BY_KEY);
  }

  /** The value of a key, or null. */
  byte[] get(byte[] key) {
    UnsafeRow found = store.get(name, key(key));
    return found == null ? null : found.getBinary(0);
  }

  /** Writes what a key did not have ({@code isNew}), or has as another value. */
  void put(byte[] key, ByteWriter value, boolean isNew) {
    values.reset();
    values.write(0, value.buffer(), 0, value.size());
    store.count().known(isNew ? 1 : 0, () -> store.put(name, key(key), values.getRow()));
  }

  /** Removes the value that a key has. */
  void remove(byte[] key) {
    store.count().known(-1, () -> store.remove(name, key(key)));
  }

  private UnsafeRow key(byte[] key) {
    keys.reset();
    keys.write(0, key);
    return keys.getRow();
  }
}
