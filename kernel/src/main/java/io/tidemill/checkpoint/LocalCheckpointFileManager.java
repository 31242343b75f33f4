package io.tidemill.checkpoint;

import java.io.BufferedOutputStream;
import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryStream;
import java.nio.file.FileSystemException;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Paths;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BufferedFSInputStream;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/**
 * Checkpoint files on a local disk, for {@code spark.sql.streaming.checkpointFileManagerClass}.
 *
 * <p>In: paths below a checkpoint. Out: files that are there whole or not at all. Law: when {@code
 * close} returns, the file is on the disk under its name, also after a loss of power. Paths of
 * other file systems go to Spark's own manager.
 *
 * <p>Spark's own manager goes through Hadoop's local file system, where an empty batch spends most
 * of its time, and which does not sync.
 */
public final class LocalCheckpointFileManager implements CheckpointFileManager {
  private static final String CLASS_KEY = "spark.sql.streaming.checkpointFileManagerClass";
  private static final int BUFFER = 1 << 16;

  private final Path root;
  private final CheckpointFileManager other;

  /** The constructor that Spark looks for. */
  public LocalCheckpointFileManager(Path path, Configuration conf) {
    this.root = path;
    String scheme = path.toUri().getScheme();
    if (scheme == null) {
      scheme = FileSystem.getDefaultUri(conf).getScheme();
    }
    if ("file".equals(scheme)) {
      this.other = null;
    } else {
      Configuration without = new Configuration(conf);
      without.unset(CLASS_KEY);
      this.other = CheckpointFileManager.create(path, without);
    }
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(Path path, boolean overwrite) {
    return other != null
        ? other.createAtomic(path, overwrite)
        : checked(() -> AtomicFile.create(local(path), overwrite));
  }

  @Override
  public FSDataInputStream open(Path path) {
    return other != null
        ? other.open(path)
        : checked(
            () -> new FSDataInputStream(new BufferedFSInputStream(new Input(local(path)), BUFFER)));
  }

  @Override
  public FileStatus[] list(Path path, PathFilter filter) {
    return other != null ? other.list(path, filter) : checked(() -> listLocal(path, filter));
  }

  @Override
  public void mkdirs(Path path) {
    if (other != null) {
      other.mkdirs(path);
    } else {
      checked(() -> Files.createDirectories(local(path)));
    }
  }

  @Override
  public boolean exists(Path path) {
    return other != null ? other.exists(path) : Files.exists(local(path));
  }

  @Override
  public void delete(Path path) {
    if (other != null) {
      other.delete(path);
    } else {
      checked(() -> deleteLocal(local(path)));
    }
  }

  @Override
  public boolean isLocal() {
    return other == null || other.isLocal();
  }

  @Override
  public Path createCheckpointDirectory() {
    if (other != null) {
      return other.createCheckpointDirectory();
    }
    mkdirs(root);
    return qualified(local(root));
  }

  @Override
  public void close() {
    if (other != null) {
      other.close();
    }
  }

  private static java.nio.file.Path local(Path path) {
    return Paths.get(path.toUri().getPath()).toAbsolutePath();
  }

  private static Path qualified(java.nio.file.Path path) {
    return new Path("file", null, path.toString());
  }

  private static FileStatus[] listLocal(Path path, PathFilter filter) throws IOException {
    List<FileStatus> found = new ArrayList<>();
    java.nio.file.Path directory = local(path);
    BasicFileAttributes own;
    try {
      own = Files.readAttributes(directory, BasicFileAttributes.class);
    } catch (NoSuchFileException e) {
      throw new FileNotFoundException("File " + path + " does not exist");
    }
    if (own.isRegularFile()) {
      Path file = qualified(directory);
      return filter.accept(file) ? new FileStatus[] {status(file, own)} : new FileStatus[0];
    }
    try (DirectoryStream<java.nio.file.Path> entries = Files.newDirectoryStream(directory)) {
      for (java.nio.file.Path entry : entries) {
        String name = entry.getFileName().toString();
        Path file = qualified(entry);
        // Hadoop's sums beside the files of an older checkpoint are not files of the checkpoint.
        if ((name.startsWith(".") && name.endsWith(".crc")) || !filter.accept(file)) {
          continue;
        }
        try {
          found.add(status(file, Files.readAttributes(entry, BasicFileAttributes.class)));
        } catch (NoSuchFileException gone) {
          // Deleted by another thread since the directory was read.
        }
      }
    }
    found.sort(Comparator.comparing(FileStatus::getPath));
    return found.toArray(new FileStatus[0]);
  }

  private static FileStatus status(Path path, BasicFileAttributes attributes) {
    long modified = attributes.lastModifiedTime().toMillis();
    return new FileStatus(attributes.size(), attributes.isDirectory(), 1, 1 << 25, modified, path);
  }

  private static Void deleteLocal(java.nio.file.Path path) throws IOException {
    if (!Files.isDirectory(path, LinkOption.NOFOLLOW_LINKS)) {
      Files.deleteIfExists(path);
      Files.deleteIfExists(sum(path));
      return null;
    }
    Files.walkFileTree(
        path,
        new SimpleFileVisitor<>() {
          @Override
          public FileVisitResult visitFile(java.nio.file.Path file, BasicFileAttributes attributes)
              throws IOException {
            Files.deleteIfExists(file);
            return FileVisitResult.CONTINUE;
          }

          @Override
          public FileVisitResult visitFileFailed(java.nio.file.Path file, IOException e)
              throws IOException {
            if (e instanceof NoSuchFileException) {
              return FileVisitResult.CONTINUE;
            }
            throw e;
          }

          @Override
          public FileVisitResult postVisitDirectory(java.nio.file.Path directory, IOException e)
              throws IOException {
            if (e != null) {
              throw e;
            }
            Files.deleteIfExists(directory);
            return FileVisitResult.CONTINUE;
          }
        });
    return null;
  }

  /** Hadoop's checksum of a file, which would contradict a file that we replace. */
  private static java.nio.file.Path sum(java.nio.file.Path path) {
    return path.resolveSibling("." + path.getFileName() + ".crc");
  }

  /** Written under another name, synced, then renamed; or cancelled. */
  private static final class AtomicFile extends CancellableFSDataOutputStream {
    private final java.nio.file.Path target;
    private final java.nio.file.Path temporary;
    private final FileOutputStream file;
    private final boolean overwrite;
    private boolean ended;

    private AtomicFile(
        java.nio.file.Path target,
        java.nio.file.Path temporary,
        FileOutputStream file,
        OutputStream buffered,
        boolean overwrite)
        throws IOException {
      super(buffered);
      this.target = target;
      this.temporary = temporary;
      this.file = file;
      this.overwrite = overwrite;
    }

    static AtomicFile create(java.nio.file.Path target, boolean overwrite) throws IOException {
      String name = "." + target.getFileName() + "." + UUID.randomUUID() + ".tmp";
      java.nio.file.Path temporary = target.resolveSibling(name);
      FileOutputStream file;
      try {
        file = new FileOutputStream(temporary.toFile());
      } catch (FileNotFoundException e) {
        Files.createDirectories(target.getParent());
        file = new FileOutputStream(temporary.toFile());
      }
      OutputStream buffered = new BufferedOutputStream(file, BUFFER);
      return new AtomicFile(target, temporary, file, buffered, overwrite);
    }

    @Override
    public synchronized void close() throws IOException {
      if (ended) {
        return;
      }
      ended = true;
      try {
        flush();
        file.getFD().sync();
        super.close();
        if (overwrite) {
          Files.deleteIfExists(sum(target));
          Files.move(
              temporary,
              target,
              StandardCopyOption.ATOMIC_MOVE,
              StandardCopyOption.REPLACE_EXISTING);
        } else {
          moveIfAbsent();
        }
        syncDirectory();
      } catch (IOException | RuntimeException e) {
        file.close();
        Files.deleteIfExists(temporary);
        throw e;
      }
    }

    @Override
    public synchronized void cancel() {
      if (ended) {
        return;
      }
      ended = true;
      try {
        file.close();
        Files.deleteIfExists(temporary);
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }

    /** A rename replaces; a hard link does not, and the kernel decides between two writers. */
    private void moveIfAbsent() throws IOException {
      try {
        Files.createLink(target, temporary);
        Files.delete(temporary);
        return;
      } catch (java.nio.file.FileAlreadyExistsException e) {
        throw exists();
      } catch (FileSystemException | UnsupportedOperationException noLinks) {
        if (Files.exists(target)) {
          throw exists();
        }
      }
      Files.move(temporary, target, StandardCopyOption.ATOMIC_MOVE);
    }

    private FileAlreadyExistsException exists() {
      return new FileAlreadyExistsException("rename destination " + target + " already exists.");
    }

    /** A name is on the disk only when its directory is. */
    private void syncDirectory() throws IOException {
      try (FileChannel directory =
          FileChannel.open(target.getParent(), StandardOpenOption.READ)) {
        directory.force(true);
      } catch (java.nio.file.AccessDeniedException windows) {
        // Where a directory cannot be opened, there is no way to sync it.
      }
    }
  }

  /** Not a channel: an interrupted task would close it under the state store. */
  private static final class Input extends FSInputStream {
    private final RandomAccessFile file;

    Input(java.nio.file.Path path) throws IOException {
      if (Files.isDirectory(path)) {
        throw new FileNotFoundException(path + " is a directory");
      }
      this.file = new RandomAccessFile(path.toFile(), "r");
    }

    @Override
    public void seek(long position) throws IOException {
      if (position < 0 || position > file.length()) {
        throw new EOFException("cannot seek to " + position);
      }
      file.seek(position);
    }

    @Override
    public long getPos() throws IOException {
      return file.getFilePointer();
    }

    @Override
    public boolean seekToNewSource(long position) {
      return false;
    }

    @Override
    public int read() throws IOException {
      return file.read();
    }

    @Override
    public int read(byte[] bytes, int offset, int length) throws IOException {
      return file.read(bytes, offset, length);
    }

    @Override
    public int available() throws IOException {
      return (int) Math.min(Integer.MAX_VALUE, file.length() - file.getFilePointer());
    }

    @Override
    public void close() throws IOException {
      file.close();
    }
  }

  private interface Body<T> {
    T run() throws IOException;
  }

  /** Scala's interface declares no exceptions, and its callers expect these. */
  private static <T> T checked(Body<T> body) {
    try {
      return body.run();
    } catch (IOException e) {
      throw sneaky(e);
    }
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> RuntimeException sneaky(Throwable e) throws E {
    throw (E) e;
  }
}
