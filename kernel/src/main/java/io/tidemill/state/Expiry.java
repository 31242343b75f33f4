package io.tidemill.state;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.ToLongFunction;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.statefulprocessor.ImplicitGroupingKeyTracker;
import org.apache.spark.sql.execution.streaming.state.StateStoreIterator;
import org.apache.spark.sql.execution.streaming.state.UnsafeRowPair;

/**
 * When state is forgotten: a time to live for each slot of an operator, counted from the last write, as Flink counts it.
 * Time is the batch's own, so that a replayed batch forgets the same.
 *
 * <p>State that has expired is as if it were not there when it is read. What is never read again is found by a sweep over
 * the store, in the first batch of each quarter of the time to live. Spark's own time to live is not used: it makes a
 * query run empty batches without end.
 */
final class Expiry implements Serializable {
  static final Expiry NEVER = new Expiry(new long[0]);
  private static final long MOST_BETWEEN_SWEEPS = 3_600_000;
  /** Keys that are removed at a time: a store's iterator need not see what happens behind it. */
  private static final int CHUNK = 10_000;

  private final long[] ttls;
  private final long longest;

  private transient long now;
  private transient long before;

  private Expiry(long[] ttls) {
    this.ttls = ttls;
    long most = 0;
    boolean forever = ttls.length == 0;
    for (long ttl : ttls) {
      forever |= ttl <= 0;
      most = Math.max(most, ttl);
    }
    longest = forever ? 0 : most;
  }

  /** {@code ttls}: milliseconds for each slot, 0 for what is kept for ever; one for all, or none at all. */
  static Expiry after(List<Long> ttls) {
    return ttls == null ? NEVER : new Expiry(ttls.stream().mapToLong(Long::longValue).toArray());
  }

  /** Whether any slot is ever forgotten. */
  boolean isOn() {
    for (long ttl : ttls) {
      if (ttl > 0) {
        return true;
      }
    }
    return false;
  }

  /** Of one slot: milliseconds, or 0. */
  long ttl(int slot) {
    return ttls.length == 0 ? 0 : ttls[Math.min(slot, ttls.length - 1)];
  }

  long now() {
    return now;
  }

  /** Whether a key that was last written then is forgotten with all that it has. */
  boolean isOver(long written) {
    return longest > 0 && written + longest <= now;
  }

  boolean isOver(long written, int slot) {
    return ttl(slot) > 0 && written + ttl(slot) <= now;
  }

  void begin(Store store) {
    now = store.batchTime();
    before = store.timeOfBatchBefore();
  }

  /** Whether this batch is the first one of its time. */
  private boolean isDue() {
    long interval = Math.max(1, Math.min(longest / 4, MOST_BETWEEN_SWEEPS));
    return longest > 0 && Math.floorDiv(now, interval) != Math.floorDiv(before, interval);
  }

  /** Hands over every key of a state variable that is forgotten; it is the implicit one of Spark's state variables then. */
  void sweep(Store store, String variable, ToLongFunction<byte[]> written, Consumer<byte[]> remove) {
    if (!isDue()) {
      return;
    }
    List<byte[]> gone;
    do {
      gone = forgotten(store, variable, written);
      for (byte[] key : gone) {
        ImplicitGroupingKeyTracker.setImplicitKey(key);
        remove.accept(key);
        ImplicitGroupingKeyTracker.removeImplicitKey();
      }
    } while (gone.size() == CHUNK);
  }

  private List<byte[]> forgotten(Store store, String variable, ToLongFunction<byte[]> written) {
    List<byte[]> keys = new ArrayList<>();
    StateStoreIterator<UnsafeRowPair> entries = store.entries(variable);
    try {
      while (entries.hasNext() && keys.size() < CHUNK) {
        UnsafeRowPair entry = entries.next();
        if (isOver(written.applyAsLong(entry.value().getBinary(0)))) {
          keys.add(entry.key().getBinary(0));
        }
      }
    } finally {
      entries.close();
    }
    return keys;
  }
}
