DROP FUNCTION {outbox_maintain}(interval);
DROP FUNCTION {outbox_send}(text, text, text, text, text, text, text, bytea, text, integer, timestamptz);
DROP TRIGGER IF EXISTS {name outbox_strict} ON {outbox};
DROP FUNCTION IF EXISTS {outbox_strict}();
DROP TRIGGER {name outbox_ring} ON {outbox};
DROP FUNCTION {outbox_ring}();
DROP FUNCTION {outbox_heartbeat}(text, interval, boolean, bigint, text, smallint[], bigint[], smallint[], bigint[], smallint[], bigint[], integer);
DELETE FROM {outbox_migrations} WHERE version = 2;
