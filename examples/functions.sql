-- Functions of your own, written in Python; they stand in prices.py beside this script, from where they are loaded
-- because --pyfiles says so. Needs no topic and no broker:
--
--     tidemill run --pyfiles examples examples/functions.sql
CREATE TABLE orders (
  amount DECIMAL(8, 2)
) WITH (
  'connector' = 'datagen',
  'number-of-rows' = '1000',
  'fields.amount.min' = '1',
  'fields.amount.max' = '100'
);

CREATE FUNCTION band AS 'prices.band' LANGUAGE PYTHON;
CREATE FUNCTION net AS 'prices.net' LANGUAGE PYTHON;

SELECT band(amount) AS band, COUNT(*) AS orders, SUM(net(amount, 19)) AS net
FROM orders
GROUP BY band(amount);
