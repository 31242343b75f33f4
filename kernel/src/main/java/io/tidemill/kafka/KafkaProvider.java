package io.tidemill.kafka;

import io.tidemill.Vault;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The data source {@code tidemill-kafka}. Its one option {@code spec} is the key of a JSON document in
 * the {@link Vault}, or that document: a {@link SourceSpec} to read, a {@link SinkSpec} to write. It is
 * one document because Spark folds the case of option names and Kafka's properties have theirs.
 */
public final class KafkaProvider implements TableProvider, DataSourceRegister {
  @Override
  public String shortName() {
    return "tidemill-kafka";
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return KafkaTable.of(Vault.open(options.get("spec"))).schema();
  }

  @Override
  public Table getTable(
      StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return KafkaTable.of(Vault.open(new CaseInsensitiveStringMap(properties).get("spec")));
  }
}
