package io.tidemill.encode;

import java.io.Serializable;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeBlock;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprValue;
import org.apache.spark.sql.catalyst.expressions.codegen.FalseLiteral$;
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeProjection$;
import org.apache.spark.sql.catalyst.expressions.codegen.JavaCode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Some columns as one document. */
public final class Document extends Expression implements Serializable {
  private final Seq<Expression> columns;
  private final Encoder encoder;
  private transient UnsafeProjection projection;

  Document(Iterable<Expression> columns, Encoder encoder) {
    this.columns = CollectionConverters.asScala(columns).toList();
    this.encoder = encoder;
  }

  @Override
  public Seq<Expression> children() {
    return columns;
  }

  @Override
  public Expression withNewChildrenInternal(IndexedSeq<Expression> children) {
    return new Document(CollectionConverters.asJava(children), encoder);
  }

  @Override
  public DataType dataType() {
    return DataTypes.BinaryType;
  }

  @Override
  public boolean nullable() {
    return encoder.mayBeNull();
  }

  @Override
  public Object eval(InternalRow input) {
    if (projection == null) {
      projection = UnsafeProjection.create(columns);
    }
    return encoder.encode(projection.apply(input));
  }

  @Override
  public ExprCode doGenCode(CodegenContext context, ExprCode code) {
    ExprCode row = GenerateUnsafeProjection$.MODULE$.createCode(context, columns, false);
    String writes = context.addReferenceObj("encoder", encoder, Encoder.class.getName());
    String call = "byte[] " + code.value() + " = " + writes + ".encode(" + row.value() + ");";
    if (nullable()) {
      call += "boolean " + code.isNull() + " = " + code.value() + " == null;";
    }
    Seq<String> parts = CollectionConverters.asScala(List.of(call)).toList();
    Seq<JavaCode> none = CollectionConverters.asScala(List.<JavaCode>of()).toList();
    ExprValue isNull = nullable() ? code.isNull() : FalseLiteral$.MODULE$;
    return code.copy(row.code().$plus(new CodeBlock(parts, none)), isNull, code.value());
  }

  @Override
  public int productArity() {
    return 2;
  }

  @Override
  public Object productElement(int n) {
    return n == 0 ? columns : encoder;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof Document;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Document that && encoder == that.encoder && columns.equals(that.columns);
  }

  @Override
  public int hashCode() {
    return columns.hashCode();
  }
}
