-- One row becomes several: a table function in Python (instalments.py beside this script), UNNEST and ROLLUP. Needs no
-- topic and no broker:
--
--     tidemill run --pyfiles examples examples/several_rows.sql
CREATE TABLE orders (
  id BIGINT,
  amount INT
) WITH (
  'connector' = 'datagen',
  'number-of-rows' = '1000',
  'fields.id.kind' = 'sequence',
  'fields.id.start' = '1',
  'fields.id.end' = '1000',
  'fields.amount.min' = '10',
  'fields.amount.max' = '100'
);

CREATE FUNCTION instalments AS 'instalments.instalments' LANGUAGE PYTHON;

-- What is due in each month, for each way of paying, and in all of them.
SELECT way, `month`, SUM(due) AS due, GROUPING_ID(way, `month`) AS level
FROM orders
CROSS JOIN UNNEST(ARRAY['card', 'transfer']) AS ways (way)
CROSS JOIN LATERAL TABLE(instalments(amount, 3))
WHERE MOD(id, 2) = IF(way = 'card', 0, 1)
GROUP BY ROLLUP (way, `month`);
