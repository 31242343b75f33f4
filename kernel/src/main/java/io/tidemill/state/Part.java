package io.tidemill.state;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import scala.jdk.javaapi.CollectionConverters;

/** Some columns of rows, as bytes: equal columns are equal bytes. Rows are bodies, without a header. */
final class Part {
  private static final byte[] NONE = {};

  private final UnsafeRow row;
  /** Null without columns. */
  private final UnsafeProjection projection;

  Part(StructType columns, Collection<String> wanted) {
    row = new UnsafeRow(columns.size());
    List<Expression> picked = new ArrayList<>();
    for (int i = 0; i < columns.size(); i++) {
      StructField field = columns.apply(i);
      if (wanted.contains(field.name())) {
        picked.add(new BoundReference(i, field.dataType(), true));
      }
    }
    projection =
        picked.isEmpty() ? null : UnsafeProjection.create(CollectionConverters.asScala(picked).toList());
  }

  byte[] of(byte[] body) {
    return of(body, 0);
  }

  /** {@code from}: where the body begins. */
  byte[] of(byte[] bytes, int from) {
    if (projection == null) {
      return NONE;
    }
    row.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET + from, bytes.length - from);
    UnsafeRow picked = projection.apply(row);
    byte[] copy = new byte[picked.getSizeInBytes()];
    picked.writeToMemory(copy, Platform.BYTE_ARRAY_OFFSET);
    return copy;
  }
}
