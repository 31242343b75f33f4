package io.tidemill.state;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.statefulprocessor.StatefulProcessorHandleImpl;
import org.apache.spark.sql.execution.streaming.state.KeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.apache.spark.sql.execution.streaming.state.StateStore$;
import org.apache.spark.sql.execution.streaming.state.StateStoreIterator;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import org.apache.spark.sql.execution.streaming.state.UnsafeRowPair;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.mutable.HashMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What a task's handle knows and Spark shows to nobody: the store under its state variables, and the batch's time, which
 * an operator without timers cannot ask for. With {@link RowCount}, the one place that looks into Spark's fields; it says
 * so when a release moves them.
 */
public final class Store {
  private final StatefulProcessorHandleImpl handle;
  private final StateStore store;
  private final RowCount count;

  Store(StatefulProcessorHandleImpl handle) {
    this.handle = handle;
    this.store = (StateStore) read("store");
    this.count = RowCount.of(store);
  }

  /** Of the rows of all variables. */
  RowCount count() {
    return count;
  }

  /** All of a state variable; to be closed. */
  StateStoreIterator<UnsafeRowPair> entries(String variable) {
    return store.iterator(variable);
  }

  boolean isEmpty(String variable) {
    StateStoreIterator<UnsafeRowPair> entries = entries(variable);
    try {
      return !entries.hasNext();
    } finally {
      entries.close();
    }
  }

  /** A state variable; Spark's handle offers none whose keys have an order. */
  void create(String variable, StructType key, StructType value, KeyStateEncoderSpec order) {
    store.createColFamilyIfAbsent(variable, key, value, order, false, false);
  }

  UnsafeRow get(String variable, UnsafeRow key) {
    return store.get(key, variable);
  }

  void put(String variable, UnsafeRow key, UnsafeRow value) {
    store.put(key, value, variable);
  }

  void remove(String variable, UnsafeRow key) {
    store.remove(key, variable);
  }

  /** To be closed. */
  StateStoreIterator<UnsafeRowPair> range(String variable, UnsafeRow from, UnsafeRow until) {
    return store.rangeScan(Option.apply(from), Option.apply(until), variable);
  }

  /** The number of the task whose state it is, which may be another than the task's own number. */
  int partition() {
    return store.id().partitionId();
  }

  /** Milliseconds; the same when a batch is repeated. */
  long batchTime() {
    return time("batchTimestampMs");
  }

  long timeOfBatchBefore() {
    return time("prevBatchTimestampMs");
  }

  /**
   * Closes the stores that a run of a query has left in this JVM, with the memory that they have outside of the heap;
   * Spark does so when it next looks after its stores, a minute later.
   */
  public static void release(String runId) {
    UUID run = UUID.fromString(runId);
    List<StateStoreProviderId> left = new ArrayList<>();
    HashMap<StateStoreProviderId, ?> loaded = loaded();
    synchronized (loaded) {
      CollectionConverters.asJava(loaded).keySet().stream()
          .filter(id -> id.queryRunId().equals(run))
          .forEach(left::add);
    }
    for (StateStoreProviderId id : left) {
      try {
        StateStore.removeFromLoadedProvidersAndClose(id);
      } catch (RuntimeException stillUsed) {
        // By a task that was stopped in the middle: it goes with the JVM.
      }
    }
  }

  @SuppressWarnings("unchecked")
  private static HashMap<StateStoreProviderId, ?> loaded() {
    Field field = field(StateStore$.class, "loadedProviders");
    return (HashMap<StateStoreProviderId, ?>) got(field, null);
  }

  private long time(String name) {
    Option<?> time = (Option<?>) read(name);
    return time.isDefined() ? (Long) time.get() : 0;
  }

  private Object read(String name) {
    return got(field(StatefulProcessorHandleImpl.class, name), handle);
  }

  static Object got(Field field, Object from) {
    try {
      return field.get(from);
    } catch (IllegalAccessException e) {
      throw new IllegalStateException(e);
    }
  }

  static Field field(Class<?> in, String name) {
    try {
      Field field = in.getDeclaredField(name);
      field.setAccessible(true);
      return field;
    } catch (NoSuchFieldException e) {
      throw new IllegalStateException("this release of Spark keeps '" + name + "' elsewhere", e);
    }
  }
}
