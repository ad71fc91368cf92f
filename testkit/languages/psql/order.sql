-- psql "$URL" --set=order=42 --set=total=1250 --file=order.sql
\set ON_ERROR_STOP on
BEGIN;
INSERT INTO orders (id, total) VALUES (:'order', :total);
INSERT INTO outbox (event_type, aggregate_type, aggregate_id, payload)
VALUES ('OrderPlaced', 'ORDER', :'order', json_build_object('total', :total));
COMMIT;
