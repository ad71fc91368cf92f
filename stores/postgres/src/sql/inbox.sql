-- What has taken effect, once per consumer and event.
CREATE TABLE IF NOT EXISTS {outbox} (
    consumer     text COLLATE "C" NOT NULL,
    event_id     text COLLATE "C" NOT NULL,
    payload_hash text,
    processed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (consumer, event_id)
);
-- On a table that has many rows already, consumers wait while one of these is made: make it beforehand, under the same
-- name, with CREATE INDEX CONCURRENTLY. `postrider inbox migrate` does.
CREATE INDEX IF NOT EXISTS {name outbox_time} ON {outbox} (processed_at);
CREATE INDEX IF NOT EXISTS {name outbox_consumer_time} ON {outbox} (consumer, processed_at);
