-- What has taken effect, once per consumer and event.
CREATE TABLE IF NOT EXISTS {outbox} (
    consumer     text COLLATE "C" NOT NULL,
    event_id     text COLLATE "C" NOT NULL,
    payload_hash text,
    processed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (consumer, event_id)
);
CREATE INDEX IF NOT EXISTS {name outbox_time} ON {outbox} (processed_at);
