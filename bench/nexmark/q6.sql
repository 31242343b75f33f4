-- The average of what the last ten auctions of each seller have brought, as it stands. The published query has it for
-- every auction, by OVER of rows that change, which Flink cannot run; this form both engines can. The price alone says
-- who wins, as no auction has two bids of the same: with the time as well, Flink takes a winner that is replaced for one more.
-- state
CREATE TABLE events (
  event_type INT,
  person ROW<id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING,
    `dateTime` TIMESTAMP(3), extra STRING>,
  auction ROW<id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT,
    `dateTime` TIMESTAMP(3), expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING>,
  bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` TIMESTAMP(3),
    extra STRING>,
  `dateTime` AS CASE event_type WHEN 0 THEN person.`dateTime` WHEN 1 THEN auction.`dateTime` ELSE bid.`dateTime` END,
  WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND
) WITH (
  'connector' = 'kafka',
  'topic' = '${nexmark}',
  'properties.bootstrap.servers' = '${BOOTSTRAP}',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'format' = 'json'
);
CREATE VIEW auction AS
SELECT auction.id, auction.itemName, auction.description, auction.initialBid, auction.reserve, `dateTime`,
  auction.expires, auction.seller, auction.category, auction.extra
FROM events WHERE event_type = 1;
CREATE VIEW bid AS
SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, `dateTime`, bid.extra
FROM events WHERE event_type = 2;
CREATE TABLE results (seller BIGINT, price BIGINT, PRIMARY KEY (seller) NOT ENFORCED) WITH ('connector' = 'blackhole');
CREATE VIEW won AS
SELECT id, seller, price, `dateTime` FROM (
  SELECT a.id, a.seller, b.price, b.`dateTime`,
    ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC) AS place
  FROM auction AS a JOIN bid AS b ON a.id = b.auction AND b.`dateTime` BETWEEN a.`dateTime` AND a.expires
) WHERE place <= 1;
INSERT INTO results
SELECT seller, AVG(price) FROM (
  SELECT seller, price, ROW_NUMBER() OVER (PARTITION BY seller ORDER BY `dateTime` DESC, id DESC) AS nth FROM won
) WHERE nth <= 10 GROUP BY seller;
