-- What has taken effect, once per consumer and event.
CREATE TABLE IF NOT EXISTS {outbox} (
    consumer     TEXT NOT NULL,
    event_id     TEXT NOT NULL,
    payload_hash TEXT,
    processed_at INTEGER NOT NULL DEFAULT ({now}),
    PRIMARY KEY (consumer, event_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS {outbox_time} ON {outbox} (processed_at);
CREATE INDEX IF NOT EXISTS {outbox_consumer_time} ON {outbox} (consumer, processed_at);
