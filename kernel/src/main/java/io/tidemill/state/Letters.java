package io.tidemill.state;

import io.tidemill.kafka.LetterBox;
import java.io.CharArrayWriter;
import java.nio.charset.StandardCharsets;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.time.format.DateTimeFormatterBuilder;
import java.time.temporal.ChronoField;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.json.JSONOptions;
import org.apache.spark.sql.catalyst.json.JacksonGenerator;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimeType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Tuple2;

/**
 * Late rows on their way from an operator to a topic: pairs among the pairs that leave it, with a key of their own. In:
 * what {@link LateRows} gives. Out: a record whose value is the row as JSON, and whose headers say what it missed.
 */
final class Letters {
  /** No first of another pair that leaves an operator has this length. */
  static final byte[] KEY = new byte[Marking.LENGTH];

  private static final String[] KINDS = {"+I", "-U", "+U", "-D"};
  private static final DateTimeFormatter CLOCK =
      new DateTimeFormatterBuilder()
          .appendPattern("HH:mm:ss")
          .appendFraction(ChronoField.NANO_OF_SECOND, 0, 9, true)
          .toFormatter();
  private static final DateTimeFormatter TIMESTAMP =
      new DateTimeFormatterBuilder().appendPattern("yyyy-MM-dd ").append(CLOCK).toFormatter();

  private final TimeSpec.Letters spec;
  private final LetterBox box;
  private final List<Shown> inputs = new ArrayList<>();

  private Letters(TimeSpec.Letters spec, LetterBox box, List<StructType> rows) {
    this.spec = spec;
    this.box = box;
    for (int i = 0; i < rows.size(); i++) {
      inputs.add(new Shown(rows.get(i), spec.columns().get(i)));
    }
  }

  /** The pairs that are no letters; those that are go to their topic. {@code rows}: the columns of each input's rows. */
  static Dataset<Tuple2<byte[], byte[]>> sent(
      Dataset<Tuple2<byte[], byte[]>> pairs, TimeSpec.Letters spec, List<StructType> rows) {
    LetterBox box = LetterBox.of(spec.sink());
    MapPartitionsFunction<Tuple2<byte[], byte[]>, Tuple2<byte[], byte[]>> sending =
        all -> new Sifting(all, new Letters(spec, box, rows)::isOther);
    return pairs.mapPartitions(sending, Packing.PAIRS);
  }

  private boolean isOther(Tuple2<byte[], byte[]> pair) {
    boolean isLetter = pair._1().length == KEY.length;
    if (isLetter) {
      send(pair._2());
    }
    return !isLetter;
  }

  private void send(byte[] letter) {
    ByteReader in = new ByteReader();
    in.over(letter);
    List<Header> headers = new ArrayList<>();
    add(headers, "operator", spec.operator());
    add(headers, "watermark", text(in.readFixed64()));
    add(headers, "event-time", text(in.readFixed64()));
    long offset = in.readFixed64();
    String origin = new String(in.readBytes(), StandardCharsets.UTF_8);
    byte[] row = in.readRest();
    long header = PackedRow.header(row);
    add(headers, "row-kind", KINDS[io.tidemill.state.Header.kind(header)]);
    if (offset >= 0 && !origin.isEmpty()) {
      int slash = origin.lastIndexOf('/');
      add(headers, "topic", origin.substring(0, slash));
      add(headers, "partition", origin.substring(slash + 1));
      add(headers, "offset", Long.toString(offset));
    }
    boolean isRight = inputs.size() > 1 && io.tidemill.state.Header.isRight(header);
    box.send(null, inputs.get(isRight ? 1 : 0).json(row), headers);
  }

  private static void add(List<Header> headers, String name, String value) {
    headers.add(new RecordHeader("tidemill." + name, value.getBytes(StandardCharsets.UTF_8)));
  }

  private static String text(long milliseconds) {
    return timestamp(1000 * milliseconds);
  }

  private static String timestamp(long micros) {
    int nanos = (int) Math.floorMod(micros, 1_000_000L) * 1000;
    return TIMESTAMP.format(
        LocalDateTime.ofEpochSecond(Math.floorDiv(micros, 1_000_000L), nanos, ZoneOffset.UTC));
  }

  /** The rows of an input as JSON, in the form that the format {@code json} writes. */
  private static final class Shown {
    private final UnsafeRow row;
    private final List<Integer> places = new ArrayList<>();
    private final List<DataType> types = new ArrayList<>();
    private final CharArrayWriter text = new CharArrayWriter();
    private final JacksonGenerator generator;

    Shown(StructType columns, Map<String, String> names) {
      row = new UnsafeRow(columns.size());
      StructType shown = new StructType();
      for (int i = 0; i < columns.size(); i++) {
        String name = names.get(columns.apply(i).name());
        if (name != null) {
          DataType type = columns.apply(i).dataType();
          places.add(i);
          types.add(type);
          shown = shown.add(name, isTime(type) ? DataTypes.StringType : type, true);
        }
      }
      var options = new scala.collection.immutable.HashMap<String, String>()
          .updated("ignoreNullFields", "false")
          .updated("timestampFormat", "yyyy-MM-dd HH:mm:ss.SSSSSS'Z'")
          .updated("timestampNTZFormat", "yyyy-MM-dd HH:mm:ss.SSSSSS");
      generator = new JacksonGenerator(shown, text, new JSONOptions(options, "UTC", ""));
    }

    byte[] json(byte[] packed) {
      PackedRow.point(row, packed);
      Object[] values = new Object[places.size()];
      for (int i = 0; i < values.length; i++) {
        values[i] = row.isNullAt(places.get(i)) ? null : value(places.get(i), types.get(i));
      }
      text.reset();
      generator.write(new GenericInternalRow(values));
      generator.flush();
      return text.toString().getBytes(StandardCharsets.UTF_8);
    }

    private Object value(int place, DataType type) {
      if (type instanceof TimeType) {
        return UTF8String.fromString(CLOCK.format(LocalTime.ofNanoOfDay(row.getLong(place))));
      }
      if (isTime(type)) {
        String zone = type.equals(DataTypes.TimestampType) ? "Z" : "";
        return UTF8String.fromString(timestamp(row.getLong(place)) + zone);
      }
      return row.get(place, type);
    }

    /** Whose form has as many digits as there are. */
    private static boolean isTime(DataType type) {
      return type instanceof TimeType
          || type.equals(DataTypes.TimestampType)
          || type.equals(DataTypes.TimestampNTZType);
    }
  }
}
