package io.tidemill.state;

import java.lang.reflect.Field;
import org.apache.spark.sql.execution.streaming.state.RocksDB;
import org.apache.spark.sql.execution.streaming.state.RocksDBConf;
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStore;

/**
 * Spark's count of the rows in a store, which progress shows. To keep it, Spark looks for a key before it writes or
 * removes it, which costs more than the write; an operator that has just read the key knows whether it is there, and says
 * so.
 */
final class RowCount {
  private static final Field TRACKS = Store.field(RocksDBConf.class, "trackTotalNumberOfRows");
  private static final Field PROVIDER =
      Store.field(RocksDBStateStoreProvider.RocksDBStateStore.class, "$outer");
  private static final Field ROWS = Store.field(RocksDB.class, "numKeysOnWritingVersion");

  private final RocksDB database;
  private final RocksDBConf conf;

  private RowCount(RocksDB database) {
    this.database = database;
    this.conf = database == null ? null : database.conf();
  }

  static RowCount of(StateStore store) {
    RocksDB database = null;
    if (store instanceof RocksDBStateStoreProvider.RocksDBStateStore) {
      database = ((RocksDBStateStoreProvider) got(PROVIDER, store)).rocksDB();
    }
    // Where the user does not want rows counted, there is nothing to do.
    return new RowCount(database == null || !database.conf().trackTotalNumberOfRows() ? null : database);
  }

  private static Object got(Field field, Object from) {
    try {
      return field.get(from);
    } catch (IllegalAccessException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Writes, so that there is one row more (1), one less (-1), or as many as there were. */
  void known(int change, Runnable write) {
    track(false);
    try {
      write.run();
    } finally {
      // Also after a failure: the store outlives the task.
      track(true);
    }
    if (change != 0 && database != null) {
      try {
        ROWS.setLong(database, ROWS.getLong(database) + change);
      } catch (IllegalAccessException e) {
        throw new IllegalStateException(e);
      }
    }
  }

  private void track(boolean whether) {
    if (conf != null) {
      try {
        TRACKS.setBoolean(conf, whether);
      } catch (IllegalAccessException e) {
        throw new IllegalStateException(e);
      }
    }
  }
}
