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

  /** Null where rows are not counted: the user does not want it, or the store is another. */
  private final RocksDB database;

  private RowCount(RocksDB database) {
    this.database = database;
  }

  static RowCount of(StateStore store) {
    if (store instanceof RocksDBStateStoreProvider.RocksDBStateStore) {
      RocksDB database = ((RocksDBStateStoreProvider) Store.got(PROVIDER, store)).rocksDB();
      if (database.conf().trackTotalNumberOfRows()) {
        return new RowCount(database);
      }
    }
    return new RowCount(null);
  }

  /** Writes, so that there is one row more (1), one less (-1), or as many as there were. */
  void known(int change, Runnable write) {
    if (database == null) {
      write.run();
      return;
    }
    try {
      TRACKS.setBoolean(database.conf(), false);
      try {
        write.run();
      } finally {
        // Also after a failure: the store outlives the task.
        TRACKS.setBoolean(database.conf(), true);
      }
      if (change != 0) {
        ROWS.setLong(database, ROWS.getLong(database) + change);
      }
    } catch (IllegalAccessException e) {
      throw new IllegalStateException(e);
    }
  }
}
