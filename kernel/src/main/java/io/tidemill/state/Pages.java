package io.tidemill.state;

/** Where the group at hand keeps what is too large for its own value: pages by number. Knows when state is forgotten. */
interface Pages {
  /** Null for a page that was never written. */
  byte[] get(long page);

  void put(long page, byte[] content);

  void remove(long page);

  Expiry expiry();
}
