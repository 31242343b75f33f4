package io.tidemill.state;

/** What may become too large for the group's own value, and lies in pages then. */
interface Paged {
  void keepIn(Pages pages);
}
