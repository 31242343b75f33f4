package io.tidemill.state;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.function.Consumer;

/**
 * A sorted bag: entries by their keys' bytes, unsigned, one entry a key. An operator has one for each collection that it
 * keeps for a key: the rows of a side of a join, the rows of a Top-N in their order, values with their counts.
 *
 * <p>Where state is forgotten, each entry is so by itself, its time to live after it was last changed.
 *
 * <p>A small bag lies in the key's own value. A large one lies in pages of about {@link #PAGE_BYTES} beside it, and the
 * value holds a directory: where each page begins and how many entries it has. Pages are read when they are looked at,
 * and written when they have changed.
 */
final class Bag {
  static final int PAGE_BYTES = 4096;

  private static final int PAGE_VERSION = 1;
  // The first number of a bag: how many entries or pages there are, above three flags.
  private static final int STORED = 1;
  private static final int WITH_TIMES = 2;
  private static final int FLAGS = 3;
  private static final int SLOT_SHIFT = 40;
  private static final byte[] EMPTY = {};

  /** One key of the bag. Who changes an entry calls {@link Bag#changed} on it, before looking for another one. */
  static final class Entry {
    final byte[] key;
    long count;
    /** For its owner's use. */
    long mark;
    byte[] value;
    /** When it was last written, where entries are forgotten. */
    private long written;

    Entry(byte[] key, long count, byte[] value) {
      this.key = key;
      this.count = count;
      this.value = value;
    }

    private int bytes() {
      return key.length + value.length + 6;
    }
  }

  private static final class Page {
    final long id;
    byte[] fence;
    int size;
    /** When the entry was written that was written first, where entries are forgotten. */
    long oldest;
    /** Null until the page is looked at. */
    List<Entry> entries;
    boolean changed;

    Page(long id, byte[] fence, int size, List<Entry> entries) {
      this.id = id;
      this.fence = fence;
      this.size = size;
      this.entries = entries;
    }
  }

  private final long slot;
  private final int slotNumber;
  private final Pages store;
  private final Expiry expiry;
  private final ByteWriter scratch = new ByteWriter(PAGE_BYTES);
  private final ByteReader reader = new ByteReader();
  private final List<Page> pages = new ArrayList<>();
  private long nextId;
  private boolean stored;
  /** Whether the pages have the times of their entries; all that is written has them where entries are forgotten. */
  private boolean stamped;
  /** Where the last {@link #find} ended. */
  private Page page;
  private int number;
  private int at;

  /** {@code slot} tells the bags of an operator apart. */
  Bag(int slot, Pages store) {
    this(slot, store, store.expiry());
  }

  /** {@code expiry}: {@link Expiry#NEVER} where entries are forgotten with their key only. */
  Bag(int slot, Pages store, Expiry expiry) {
    this.slot = (long) slot << SLOT_SHIFT;
    this.slotNumber = slot;
    this.store = store;
    this.expiry = expiry;
    clear();
  }

  /** Empty, for a key that had no state. */
  void clear() {
    pages.clear();
    pages.add(new Page(0, EMPTY, 0, new ArrayList<>()));
    nextId = 1;
    stored = false;
    stamped = times();
    page = null;
  }

  /** Removes every entry, and the pages too. */
  void drop() {
    if (stored) {
      pages.forEach(p -> store.remove(slot | p.id));
    }
    clear();
  }

  boolean isEmpty() {
    return pages.stream().allMatch(p -> p.size == 0);
  }

  long size() {
    long size = 0;
    for (Page p : pages) {
      size += p.size;
    }
    return size;
  }

  /** The entry of a key, or null. */
  Entry get(byte[] key) {
    return find(key) ? page.entries.get(at) : null;
  }

  /** The entry of a key, made with count 0 and no value if there was none. */
  Entry obtain(byte[] key) {
    if (!find(key)) {
      page.entries.add(at, new Entry(key, 0, EMPTY));
      page.size++;
    }
    changed();
    return page.entries.get(at);
  }

  /** Says that the entry that was got last is not as it was. */
  void changed() {
    page.changed = true;
    page.entries.get(at).written = expiry.now();
  }

  void put(byte[] key, byte[] value) {
    Entry entry = obtain(key);
    entry.count = 1;
    entry.value = value;
  }

  boolean remove(byte[] key) {
    if (!find(key)) {
      return false;
    }
    page.entries.remove(at);
    page.size--;
    page.changed = true;
    return true;
  }

  /** Removes the entries before a key, in order; those of a page at a time. */
  void removeBefore(byte[] key, Consumer<Entry> removed) {
    for (int i = 0; i < pages.size(); i++) {
      if (pages.get(i).size > 0) {
        Page p = loaded(i);
        List<Entry> gone = p.entries.subList(0, position(p.entries, key));
        if (gone.isEmpty()) {
          return;
        }
        gone.forEach(removed);
        gone.clear();
        p.size = p.entries.size();
        p.changed = true;
        if (p.size > 0) {
          return;
        }
      }
    }
  }

  /** The entry of a key or else the one before it, or null. */
  Entry floor(byte[] key) {
    if (find(key)) {
      return page.entries.get(at);
    }
    if (at > 0) {
      return page.entries.get(at - 1);
    }
    for (int i = number - 1; i >= 0; i--) {
      if (pages.get(i).size > 0) {
        List<Entry> entries = loaded(i).entries;
        return entries.get(entries.size() - 1);
      }
    }
    return null;
  }

  /** The first entry, or null. */
  Entry first() {
    Cursor all = all();
    return all.hasNext() ? all.next() : null;
  }

  private boolean find(byte[] key) {
    int low = 0;
    int high = pages.size() - 1;
    while (low < high) {
      int middle = (low + high + 1) >>> 1;
      if (Arrays.compareUnsigned(pages.get(middle).fence, key) <= 0) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    page = loaded(low);
    number = low;
    at = position(page.entries, key);
    return at < page.entries.size() && Arrays.equals(page.entries.get(at).key, key);
  }

  /** Where a key is, or would be. */
  private static int position(List<Entry> entries, byte[] key) {
    int low = 0;
    int high = entries.size();
    while (low < high) {
      int middle = (low + high) >>> 1;
      if (Arrays.compareUnsigned(entries.get(middle).key, key) < 0) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  /** The entries from a key on, in order. A cursor is void once the bag has gained or lost an entry. */
  Cursor from(byte[] key) {
    find(key);
    return new Cursor(number, at);
  }

  Cursor all() {
    return new Cursor(0, 0);
  }

  final class Cursor implements java.util.Iterator<Entry> {
    private int number;
    private int next;

    private Cursor(int number, int next) {
      this.number = number;
      this.next = next;
    }

    @Override
    public boolean hasNext() {
      while (number < pages.size() && next >= pages.get(number).size) {
        number++;
        next = 0;
      }
      return number < pages.size();
    }

    @Override
    public Entry next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      return loaded(number).entries.get(next++);
    }

    /** Says that the entry that came last is not as it was. */
    void changed() {
      Page p = pages.get(number);
      p.changed = true;
      p.entries.get(next - 1).written = expiry.now();
    }
  }

  /** The last entry, or null. */
  Entry last() {
    for (int i = pages.size() - 1; i >= 0; i--) {
      if (pages.get(i).size > 0) {
        List<Entry> entries = loaded(i).entries;
        return entries.get(entries.size() - 1);
      }
    }
    return null;
  }

  private Page loaded(int number) {
    Page p = pages.get(number);
    if (p.entries == null) {
      byte[] content = store.get(slot | p.id);
      if (content == null) {
        throw new IllegalStateException("state is damaged: page " + p.id + " is missing");
      }
      reader.over(content);
      if (reader.readByte() != PAGE_VERSION) {
        throw new IllegalStateException("state pages were written by another release of Tidemill");
      }
      load(p, reader, stamped);
    }
    return p;
  }

  /** Reads the entries of a page, without those that are forgotten. */
  private void load(Page p, ByteReader in, boolean withTimes) {
    List<Entry> entries = new ArrayList<>(p.size + 1);
    for (int i = p.size; i > 0; i--) {
      Entry entry = new Entry(in.readBytes(), in.readZigzag(), EMPTY);
      entry.mark = in.readZigzag();
      entry.value = in.readBytes();
      entry.written = withTimes ? in.readFixed64() : expiry.now();
      if (expiry.isOver(entry.written, slotNumber)) {
        p.changed = true;
      } else {
        entries.add(entry);
      }
    }
    p.entries = entries;
    p.size = entries.size();
  }

  // --- as bytes ----------------------------------------------------------------------------------

  private void write(List<Entry> entries, ByteWriter out) {
    for (Entry entry : entries) {
      out.writeBytes(entry.key, 0, entry.key.length);
      out.writeZigzag(entry.count);
      out.writeZigzag(entry.mark);
      out.writeBytes(entry.value, 0, entry.value.length);
      if (stamped) {
        out.writeFixed64(entry.written);
      }
    }
  }

  private static long oldest(List<Entry> entries) {
    long oldest = Long.MAX_VALUE;
    for (Entry entry : entries) {
      oldest = Math.min(oldest, entry.written);
    }
    return oldest;
  }

  /** The inverse of {@link #write(ByteWriter)}. */
  void read(ByteReader in) {
    pages.clear();
    page = null;
    long first = in.readVarint();
    stored = (first & STORED) != 0;
    boolean withTimes = (first & WITH_TIMES) != 0;
    int count = (int) (first >>> FLAGS);
    if (!stored) {
      nextId = 1;
      Page only = new Page(0, EMPTY, count, null);
      load(only, in, withTimes);
      pages.add(only);
    } else {
      nextId = in.readVarint();
      for (int i = 0; i < count; i++) {
        Page p = new Page(in.readVarint(), in.readBytes(), in.readLength(), null);
        p.oldest = withTimes ? in.readFixed64() : Long.MAX_VALUE;
        pages.add(p);
      }
    }
    stamped = withTimes;
    for (int i = 0; i < pages.size(); i++) {
      // The sizes of pages must be true. What has no times yet is given some.
      if (pages.get(i).entries == null && (withTimes != times() || expiry.isOver(pages.get(i).oldest, slotNumber))) {
        loaded(i).changed = true;
      }
    }
    stamped = times();
  }

  private boolean times() {
    return expiry.ttl(slotNumber) > 0;
  }

  /** Writes the bag itself or, if it is large, its directory, and the pages that have changed. */
  void write(ByteWriter out) {
    if (!stored && bytes(pages.get(0).entries) <= PAGE_BYTES) {
      out.writeVarint((long) pages.get(0).size << FLAGS | (stamped ? WITH_TIMES : 0));
      write(pages.get(0).entries, out);
      return;
    }
    arrange();
    if (pages.size() == 1 && pages.get(0).entries != null && bytes(pages.get(0).entries) <= PAGE_BYTES / 2) {
      store.remove(slot | pages.get(0).id);
      stored = false;
      write(out);
      return;
    }
    stored = true;
    out.writeVarint((long) pages.size() << FLAGS | (stamped ? WITH_TIMES : 0) | STORED);
    out.writeVarint(nextId);
    for (Page p : pages) {
      if (p.changed) {
        scratch.reset();
        scratch.writeByte(PAGE_VERSION);
        write(p.entries, scratch);
        store.put(slot | p.id, scratch.toBytes());
        p.oldest = oldest(p.entries);
        p.changed = false;
      }
      out.writeVarint(p.id);
      out.writeBytes(p.fence, 0, p.fence.length);
      out.writeVarint(p.size);
      if (stamped) {
        out.writeFixed64(p.oldest);
      }
    }
  }

  private static long bytes(List<Entry> entries) {
    long bytes = 0;
    for (Entry entry : entries) {
      bytes += entry.bytes();
    }
    return bytes;
  }

  /** Cuts pages that have become too large, and joins those that have become too small with their neighbours. */
  private void arrange() {
    if (!stored) {
      pages.get(0).changed = true;
    }
    List<Page> arranged = new ArrayList<>();
    for (int i = 0; i < pages.size(); i++) {
      Page p = pages.get(i);
      if (!p.changed) {
        arranged.add(p);
        continue;
      }
      while (bytes(p.entries) < PAGE_BYTES / 4 && i + 1 < pages.size()) {
        Page next = loaded(++i);
        p.entries.addAll(next.entries);
        store.remove(slot | next.id);
      }
      cut(p, arranged);
    }
    pages.clear();
    pages.addAll(arranged);
    page = null;
  }

  private void cut(Page p, List<Page> into) {
    List<Entry> entries = p.entries;
    p.size = entries.size();
    into.add(p);
    if (bytes(entries) <= 2 * PAGE_BYTES) {
      return;
    }
    int from = 0;
    long bytes = 0;
    Page open = p;
    for (int i = 0; i < entries.size(); i++) {
      bytes += entries.get(i).bytes();
      if (bytes >= PAGE_BYTES || i == entries.size() - 1) {
        List<Entry> part = new ArrayList<>(entries.subList(from, i + 1));
        if (open == null) {
          open = new Page(nextId++, part.get(0).key, 0, null);
          into.add(open);
        }
        open.entries = part;
        open.size = part.size();
        open.changed = true;
        open = null;
        from = i + 1;
        bytes = 0;
      }
    }
  }
}
