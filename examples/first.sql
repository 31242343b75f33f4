-- Orders out of thin air, added up per city. Needs no topic and no broker:
--
--     tidemill run examples/first.sql
CREATE TABLE orders (
  city_id INT,
  amount DECIMAL(8, 2)
) WITH (
  'connector' = 'datagen',
  'number-of-rows' = '1000',
  'fields.city_id.min' = '1',
  'fields.city_id.max' = '3',
  'fields.amount.min' = '1',
  'fields.amount.max' = '100'
);

SELECT
  CASE city_id WHEN 1 THEN 'Oslo' WHEN 2 THEN 'Lima' ELSE '杭州' END AS city,
  COUNT(*) AS orders,
  SUM(amount) AS total,
  MAX(amount) AS dearest
FROM orders
WHERE amount > 5
GROUP BY city_id;
