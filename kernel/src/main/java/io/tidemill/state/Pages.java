package io.tidemill.state;

/** Where the group at hand keeps what is too large for its own value: pages by number. Knows when state is forgotten. */
interface Pages {
  /** Null for a page that was never written. */
  byte[] get(long page);

  void put(long page, byte[] content);

  void remove(long page);

  Expiry expiry();

  /** The same pages, for what is forgotten with its key only. */
  default Pages neverExpiring() {
    Pages all = this;
    return new Pages() {
      @Override
      public byte[] get(long page) {
        return all.get(page);
      }

      @Override
      public void put(long page, byte[] content) {
        all.put(page, content);
      }

      @Override
      public void remove(long page) {
        all.remove(page);
      }

      @Override
      public Expiry expiry() {
        return Expiry.NEVER;
      }
    };
  }
}
