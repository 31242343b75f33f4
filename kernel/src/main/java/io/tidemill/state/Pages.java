package io.tidemill.state;

import java.util.Map;

/** Where the group at hand keeps what is too large for its own value: pages by number. Knows when state is forgotten. */
interface Pages {
  /** Pages that are nowhere but here. */
  static Pages in(Map<Long, byte[]> pages) {
    return new Pages() {
      @Override
      public byte[] get(long page) {
        return pages.get(page);
      }

      @Override
      public void put(long page, byte[] content) {
        pages.put(page, content);
      }

      @Override
      public void remove(long page) {
        pages.remove(page);
      }

      @Override
      public Expiry expiry() {
        return Expiry.NEVER;
      }
    };
  }

  /** Null for a page that was never written. */
  byte[] get(long page);

  void put(long page, byte[] content);

  void remove(long page);

  Expiry expiry();
}
