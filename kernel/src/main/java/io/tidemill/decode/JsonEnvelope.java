package io.tidemill.decode;

import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.unsafe.array.ByteArrayMethods;

/**
 * What a database's changes are written in: the row before, the row after, and a word. Debezium and GoldenGate write
 * both rows whole; Canal and Maxwell write of the row before what was different.
 */
final class JsonEnvelope extends Decoder {
  private static final int BEFORE = 1;
  private static final int AFTER = 2;
  private static final byte INSERTED = 0;
  private static final byte UPDATED_FROM = 1;
  private static final byte UPDATED_TO = 2;
  private static final byte DELETED = 3;

  private final Envelope envelope;
  private final JsonText text;
  private final JsonRow before;
  private final JsonRow after;

  private final int[] keys;

  /** Of each key, whether its place holds the value itself. */
  private final boolean[] fixed;

  /** The last word, because it is mostly the next one, too. */
  private String word;

  JsonEnvelope(Spec spec) {
    this.envelope = spec.envelope();
    this.text = new JsonText(spec.texts());
    this.before = new JsonRow(spec.fields(), spec.iso());
    this.after = new JsonRow(spec.fields(), spec.iso());
    this.keys = envelope.keys().stream().mapToInt(Integer::intValue).toArray();
    this.fixed = new boolean[keys.length];
    for (Field field : spec.fields()) {
      for (int i = 0; i < keys.length; i++) {
        if (field.at() == keys[i]) {
          fixed[i] = field.isFixed();
        }
      }
    }
  }

  @Override
  public int read(byte[] in, int from, int to, UnsafeRowWriter[] rows) {
    text.open(in, from, to);
    int sides = envelope.payload() ? inPayload(rows) : sides(rows);
    text.close();
    return told(sides, rows);
  }

  private int inPayload(UnsafeRowWriter[] rows) {
    int sides = -1;
    text.take('{');
    do {
      boolean isPayload = isNamed("payload");
      text.take(':');
      if (!isPayload) {
        text.skip();
      } else if (sides >= 0) {
        throw Unsure.UNSURE;
      } else {
        sides = sides(rows);
      }
    } while (!text.ends('}'));
    if (sides < 0) {
      throw Unsure.UNSURE;
    }
    return sides;
  }

  /** Takes an envelope: which of the rows there are. */
  private int sides(UnsafeRowWriter[] rows) {
    int there = 0;
    int named = 0;
    String found = null;
    text.take('{');
    do {
      text.next();
      text.string();
      int side = is(envelope.before()) ? BEFORE : is(envelope.after()) ? AFTER : 0;
      boolean isWord = side == 0 && is(envelope.word());
      text.take(':');
      byte b = text.next();
      if (side != 0) {
        if ((named & side) != 0) {
          throw Unsure.UNSURE;
        }
        named |= side;
        if (b == 'n') {
          text.nothing();
        } else {
          row(side, rows[side - 1]);
          there |= side;
        }
      } else if (isWord) {
        if (found != null) {
          throw Unsure.UNSURE;
        }
        text.string();
        found = word != null && is(word) ? word : text.shown();
      } else {
        text.skip();
      }
    } while (!text.ends('}'));
    word = found;
    return there;
  }

  private void row(int side, UnsafeRowWriter row) {
    if (envelope.several()) {
      text.take('[');
    }
    if (side == AFTER) {
      after.read(text, row);
    } else if (envelope.completes()) {
      before.readPart(text, row);
    } else {
      before.read(text, row);
    }
    if (envelope.several() && !text.ends(']')) {
      throw Unsure.UNSURE; // there are more
    }
  }

  private int told(int there, UnsafeRowWriter[] rows) {
    if (word == null) {
      throw Unsure.UNSURE;
    }
    int wanted;
    if (word.equals(envelope.update())) {
      wanted = BEFORE | AFTER;
      rows[0].write(envelope.kind(), UPDATED_FROM);
      rows[1].write(envelope.kind(), UPDATED_TO);
    } else if (word.equals(envelope.delete())) {
      wanted = envelope.deletesAfter() ? AFTER : BEFORE;
      rows[wanted - 1].write(envelope.kind(), DELETED);
    } else if (envelope.inserts().contains(word)) {
      wanted = AFTER;
      rows[1].write(envelope.kind(), INSERTED);
    } else {
      throw Unsure.UNSURE;
    }
    if ((there & wanted) != wanted) {
      throw Unsure.UNSURE;
    }
    if (wanted == (BEFORE | AFTER)) {
      if (envelope.completes()) {
        before.complete(rows[0], rows[1].getRow());
      }
      if (changesKey(rows)) {
        throw Unsure.UNSURE;
      }
    }
    return wanted;
  }

  private boolean changesKey(UnsafeRowWriter[] rows) {
    if (keys.length == 0) {
      return false;
    }
    UnsafeRow old = rows[0].getRow();
    UnsafeRow now = rows[1].getRow();
    for (int i = 0; i < keys.length; i++) {
      int at = keys[i];
      boolean isNull = old.isNullAt(at);
      if (isNull != now.isNullAt(at)
          || !isNull && (fixed[i] ? old.getLong(at) != now.getLong(at) : !sameBytes(old, now, at))) {
        return true;
      }
    }
    return false;
  }

  private static boolean sameBytes(UnsafeRow a, UnsafeRow b, int at) {
    int length = (int) a.getLong(at);
    return length == (int) b.getLong(at)
        && ByteArrayMethods.arrayEquals(
            a.getBaseObject(),
            a.getBaseOffset() + (int) (a.getLong(at) >> 32),
            b.getBaseObject(),
            b.getBaseOffset() + (int) (b.getLong(at) >> 32),
            length);
  }

  private boolean isNamed(String name) {
    text.next();
    text.string();
    return is(name);
  }

  /** Whether the last text is this one, which is plain ASCII. */
  private boolean is(String wanted) {
    if (text.length != wanted.length()) {
      return false;
    }
    for (int i = 0; i < text.length; i++) {
      if (text.text[text.from + i] != wanted.charAt(i)) {
        return false;
      }
    }
    return true;
  }
}
