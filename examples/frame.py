"""A table of a script as a streaming DataFrame, in a PySpark program of your own. Needs no topic and no broker:

python examples/frame.py
"""

from __future__ import annotations

from pyspark.sql import functions as f

from tidemill import Session

with Session() as session:
    session.execute("""
        CREATE TABLE orders (
            customer INT,
            amount DECIMAL(8, 2)
        ) WITH (
            'connector' = 'datagen',
            'number-of-rows' = '1000',
            'fields.customer.min' = '1',
            'fields.customer.max' = '5',
            'fields.amount.min' = '1',
            'fields.amount.max' = '100'
        );
        CREATE VIEW large_orders AS SELECT customer, amount FROM orders WHERE amount > 90;
    """)

    large = session.table("large_orders")  # customer, amount, and _kind: 0 +I, 1 -U, 2 +U, 3 -D
    large.printSchema()

    def show(batch, number):
        """From here on it is plain Spark."""
        batch.groupBy("customer").agg(f.count("*"), f.max("amount")).sort("customer").show()

    large.writeStream.foreachBatch(show).trigger(availableNow=True).start().awaitTermination()
