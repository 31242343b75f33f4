package io.tidemill.state;

import java.io.Serializable;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.sql.catalyst.expressions.codegen.Block;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeBlock;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.expressions.codegen.FalseLiteral$;
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeProjection$;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import scala.Option;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Some columns as one BINARY: Spark's own row bytes behind eight bytes of header.
 *
 * <p>An operator whose rows are byte arrays pays neither for {@code Row} objects nor for the conversion of every value,
 * and equal columns are equal bytes. A key's header is a hash of its bytes, big end first, because Spark sorts an
 * operator's input by its key: eight random bytes decide nearly every comparison, and they make that order the order of
 * the state store. A row's header is a {@link Header}.
 */
public final class PackedRow extends Expression implements Serializable {
  static final int HEADER = 8;
  // State keys begin with this hash: neither it nor its seed may ever change.
  private static final long SEED = 7L;
  private static final int SPREAD = 64;
  private static final VarHandle LONG =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.BIG_ENDIAN);

  private final Seq<Expression> columns;
  private final Option<Expression> header;
  private transient UnsafeProjection projection;

  private PackedRow(Seq<Expression> columns, Option<Expression> header) {
    this.columns = columns;
    this.header = header;
  }

  static PackedRow key(Expression... columns) {
    return new PackedRow(seq(columns), Option.empty());
  }

  /** {@code header}: a BIGINT that is never null. */
  static PackedRow row(Expression header, Expression... columns) {
    return new PackedRow(seq(columns), Option.apply(header));
  }

  /** Called by generated code. */
  public static byte[] packKey(UnsafeRow row) {
    byte[] bytes = packRow(row, 0);
    long hash = XXH64.hashUnsafeWords(bytes, Platform.BYTE_ARRAY_OFFSET + HEADER, bytes.length - HEADER, SEED);
    LONG.set(bytes, 0, Marking.isReserved(hash) ? hash ^ 2 : hash);
    return bytes;
  }

  /** Called by generated code. */
  public static byte[] packRow(UnsafeRow row, long header) {
    int length = row.getSizeInBytes();
    byte[] bytes = new byte[HEADER + length];
    Platform.copyMemory(
        row.getBaseObject(), row.getBaseOffset(), bytes, Platform.BYTE_ARRAY_OFFSET + HEADER, length);
    LONG.set(bytes, 0, header);
    return bytes;
  }

  /** Called by generated code. A row, and behind it the place of its record. */
  public static byte[] placed(byte[] row, long place) {
    ByteWriter bytes = new ByteWriter(row.length + Long.BYTES);
    bytes.writeRaw(row, 0, row.length);
    bytes.writeFixed64(place);
    return bytes.toBytes();
  }

  /** Called by generated code. One of {@link #SPREAD} keys without columns, for rows that belong to no key. */
  public static byte[] spread(byte[] key) {
    return setHeader(new byte[HEADER], 1 + Long.remainderUnsigned(header(key), SPREAD));
  }

  /** Called by generated code. A header alone is the row of NULLs that stands for no row. */
  public static UnsafeRow unpack(byte[] bytes, int fields) {
    return bytes.length == HEADER ? null : point(new UnsafeRow(fields), bytes);
  }

  /** Called by generated code. */
  public static byte kind(byte[] bytes) {
    return (byte) Header.kind(header(bytes));
  }

  static UnsafeRow point(UnsafeRow row, byte[] bytes) {
    row.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET + HEADER, bytes.length - HEADER);
    return row;
  }

  /** A key's hash, or a row's {@link Header}. */
  static long header(byte[] bytes) {
    return (long) LONG.get(bytes, 0);
  }

  static byte[] setHeader(byte[] bytes, long header) {
    LONG.set(bytes, 0, header);
    return bytes;
  }

  /** A packed row of a body that was kept without its header. */
  static byte[] withHeader(long header, byte[] body) {
    byte[] bytes = new byte[HEADER + body.length];
    System.arraycopy(body, 0, bytes, HEADER, body.length);
    return setHeader(bytes, header);
  }

  static byte[] body(byte[] bytes) {
    return Arrays.copyOfRange(bytes, HEADER, bytes.length);
  }

  static boolean isBody(byte[] bytes, byte[] body) {
    return Arrays.equals(bytes, HEADER, bytes.length, body, 0, body.length);
  }

  /** The columns of a packed row, as a struct; {@code optional} if there may be none. */
  static Expression unpacked(Expression bytes, StructType schema, boolean optional) {
    Expression fields = new Literal(schema.size(), DataTypes.IntegerType);
    return invoke("unpack", schema, optional, bytes, fields);
  }

  /** A key without columns in place of one that has some; equal ones give the same. */
  static Expression spread(Expression key) {
    return invoke("spread", DataTypes.BinaryType, false, key);
  }

  static Expression placed(Expression row, Expression place) {
    return invoke("placed", DataTypes.BinaryType, false, row, place);
  }

  static Expression unpackedKind(Expression bytes) {
    return invoke("kind", DataTypes.ByteType, false, bytes);
  }

  private static Expression invoke(String method, DataType type, boolean nullable, Expression... arguments) {
    return new StaticInvoke(
        PackedRow.class, type, method, seq(arguments), seq(), false, nullable, true, Option.empty());
  }

  @SafeVarargs
  static <T> Seq<T> seq(T... items) {
    return CollectionConverters.asScala(List.of(items)).toList();
  }

  @Override
  public Seq<Expression> children() {
    List<Expression> all = new ArrayList<>(CollectionConverters.asJava(columns));
    header.foreach(all::add);
    return CollectionConverters.asScala(all).toList();
  }

  @Override
  public Expression withNewChildrenInternal(IndexedSeq<Expression> children) {
    List<Expression> all = CollectionConverters.asJava(children);
    int count = columns.size();
    Seq<Expression> now = CollectionConverters.asScala(all.subList(0, count)).toList();
    return new PackedRow(now, header.isEmpty() ? header : Option.apply(all.get(count)));
  }

  @Override
  public DataType dataType() {
    return DataTypes.BinaryType;
  }

  @Override
  public boolean nullable() {
    return false;
  }

  @Override
  public Object eval(InternalRow input) {
    if (projection == null) {
      projection = UnsafeProjection.create(columns);
    }
    UnsafeRow row = projection.apply(input);
    return header.isEmpty() ? packKey(row) : packRow(row, (long) header.get().eval(input));
  }

  @Override
  public ExprCode doGenCode(CodegenContext context, ExprCode code) {
    ExprCode row = GenerateUnsafeProjection$.MODULE$.createCode(context, columns, false);
    Block before = row.code();
    String pack = PackedRow.class.getName() + ".packKey(" + row.value() + ")";
    if (header.isDefined()) {
      ExprCode tag = header.get().genCode(context);
      before = before.$plus(tag.code());
      pack = PackedRow.class.getName() + ".packRow(" + row.value() + ", " + tag.value() + ")";
    }
    String call = "byte[] " + code.value() + " = " + pack + ";";
    return code.copy(before.$plus(new CodeBlock(seq(call), seq())), FalseLiteral$.MODULE$, code.value());
  }

  @Override
  public int productArity() {
    return 2;
  }

  @Override
  public Object productElement(int n) {
    return n == 0 ? columns : header;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof PackedRow;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof PackedRow that && header.equals(that.header) && columns.equals(that.columns);
  }

  @Override
  public int hashCode() {
    return columns.hashCode();
  }
}
