package io.tidemill.decode;

/** A document that the kernel leaves to Python; nothing is said about whether it is right. */
public final class Unsure extends RuntimeException {
  /** There is nothing to tell, and a trace would cost more than the document. */
  static final Unsure UNSURE = new Unsure();

  private static final long serialVersionUID = 1;

  private Unsure() {
    super(null, null, false, false);
  }

  /** For readers of records: one without a document is for Python, too. */
  public static Unsure now() {
    return UNSURE;
  }
}
