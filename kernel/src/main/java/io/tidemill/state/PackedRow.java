package io.tidemill.state;

import java.io.Serializable;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.XXH64;
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
 * Some columns as one BINARY: Spark's own row bytes behind an eight-byte hash of them.
 *
 * <p>An operator whose rows are byte arrays pays neither for {@code Row} objects nor for the conversion of every value,
 * and equal columns are equal bytes. The hash comes first, big end first, because Spark sorts an operator's input by
 * its key: eight random bytes decide nearly every comparison, and they make that order the order of the state store.
 */
public final class PackedRow extends Expression implements Serializable {
  static final int HEADER = 8;
  // State keys begin with this hash: neither it nor its seed may ever change.
  private static final long SEED = 7L;
  private static final VarHandle LONG =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.BIG_ENDIAN);

  private final Seq<Expression> columns;
  private final boolean hashed;
  private transient UnsafeProjection projection;

  /** {@code hashed}: fill in the hash, which only a row that is somebody's key needs. */
  PackedRow(Seq<Expression> columns, boolean hashed) {
    this.columns = columns;
    this.hashed = hashed;
  }

  /** Called by generated code. */
  public static byte[] pack(UnsafeRow row, boolean hashed) {
    int length = row.getSizeInBytes();
    byte[] bytes = new byte[HEADER + length];
    long body = Platform.BYTE_ARRAY_OFFSET + HEADER;
    Platform.copyMemory(row.getBaseObject(), row.getBaseOffset(), bytes, body, length);
    if (hashed) {
      LONG.set(bytes, 0, XXH64.hashUnsafeWords(bytes, body, length, SEED));
    }
    return bytes;
  }

  /** Called by generated code. */
  public static UnsafeRow unpack(byte[] bytes, int fields) {
    return point(new UnsafeRow(fields), bytes);
  }

  static UnsafeRow point(UnsafeRow row, byte[] bytes) {
    row.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET + HEADER, bytes.length - HEADER);
    return row;
  }

  static long hash(byte[] bytes) {
    return (long) LONG.get(bytes, 0);
  }

  /** The columns of a packed row, as a struct. */
  static Expression unpacked(Expression bytes, StructType schema) {
    return new StaticInvoke(
        PackedRow.class,
        schema,
        "unpack",
        seq(bytes, new Literal(schema.size(), DataTypes.IntegerType)),
        seq(),
        false,
        false,
        true,
        Option.empty());
  }

  @SafeVarargs
  static <T> Seq<T> seq(T... items) {
    return CollectionConverters.asScala(java.util.List.of(items)).toList();
  }

  @Override
  public Seq<Expression> children() {
    return columns;
  }

  @Override
  public Expression withNewChildrenInternal(IndexedSeq<Expression> children) {
    return new PackedRow(children, hashed);
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
    return pack(projection.apply(input), hashed);
  }

  @Override
  public ExprCode doGenCode(CodegenContext context, ExprCode code) {
    ExprCode row = GenerateUnsafeProjection$.MODULE$.createCode(context, columns, false);
    String pack = PackedRow.class.getName() + ".pack(" + row.value() + ", " + hashed + ")";
    String call = "byte[] " + code.value() + " = " + pack + ";";
    return code.copy(row.code().$plus(new CodeBlock(seq(call), seq())), FalseLiteral$.MODULE$, code.value());
  }

  @Override
  public int productArity() {
    return 2;
  }

  @Override
  public Object productElement(int n) {
    return n == 0 ? columns : hashed;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof PackedRow;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof PackedRow that && hashed == that.hashed && columns.equals(that.columns);
  }

  @Override
  public int hashCode() {
    return columns.hashCode();
  }
}
