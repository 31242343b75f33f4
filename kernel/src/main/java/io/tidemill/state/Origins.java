package io.tidemill.state;

import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.util.AccumulatorV2;

/** Numbers of rows by where they come from. */
final class Origins extends AccumulatorV2<Map<String, Long>, Map<String, Long>> {
  private final Map<String, Long> numbers = new TreeMap<>();

  @Override
  public synchronized boolean isZero() {
    return numbers.isEmpty();
  }

  @Override
  public synchronized Origins copy() {
    Origins copy = new Origins();
    copy.numbers.putAll(numbers);
    return copy;
  }

  @Override
  public synchronized void reset() {
    numbers.clear();
  }

  @Override
  public synchronized void add(Map<String, Long> more) {
    more.forEach((origin, number) -> numbers.merge(origin, number, Long::sum));
  }

  @Override
  public synchronized void merge(AccumulatorV2<Map<String, Long>, Map<String, Long>> other) {
    add(other.value());
  }

  @Override
  public synchronized Map<String, Long> value() {
    return new TreeMap<>(numbers);
  }
}
