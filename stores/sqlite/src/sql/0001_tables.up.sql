CREATE TABLE {outbox_migrations} (
    version    INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT;

-- One row: the identity of this outbox, and counts that survive the clean-up of the history.
-- The identity is part of the ids of events inserted without one, so that two databases never make the same id.
CREATE TABLE {outbox_meta} (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    outbox_id  TEXT NOT NULL,
    published  INTEGER NOT NULL DEFAULT 0,
    duplicates INTEGER NOT NULL DEFAULT 0,
    dropped    INTEGER NOT NULL DEFAULT 0,
    discarded  INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO {outbox_meta} (id, outbox_id) VALUES (1, lower(hex(randomblob(16))));

-- What is still to be published. Any language inserts here, in its own transaction.
-- AUTOINCREMENT: without it SQLite gives the number of a deleted row to the next one, and a repeated settle would
-- delete an event that it has never seen.
CREATE TABLE {outbox} (
    seq            INTEGER PRIMARY KEY AUTOINCREMENT CHECK (seq > 0),
    event_id       TEXT UNIQUE,
    event_type     TEXT NOT NULL,
    aggregate_type TEXT NOT NULL,
    aggregate_id   TEXT NOT NULL,
    event_key      TEXT,
    payload        TEXT CHECK (payload IS NULL OR substr(payload, 1, 2) <> '\x'),
    payload_bytes  BLOB,
    content_type   TEXT,
    headers        TEXT,
    priority       INTEGER,
    available_at   ANY,
    created_at     ANY,
    replay_id      TEXT,
    enqueued_at    INTEGER DEFAULT ({now}),
    shard          INTEGER NOT NULL GENERATED ALWAYS AS (0) VIRTUAL,
    lane           INTEGER NOT NULL GENERATED ALWAYS AS (
        CASE WHEN coalesce(priority, 0) > 0 THEN 1 WHEN coalesce(priority, 0) < 0 THEN -1 ELSE 0 END
    ) VIRTUAL,
    order_key      TEXT NOT NULL GENERATED ALWAYS AS (
        CASE WHEN replay_id IS NULL THEN '' ELSE char(31) || 'replay' || char(31) || replay_id || char(31) END
        || coalesce(event_key, aggregate_type || char(31) || aggregate_id)
    ) VIRTUAL,
    CHECK (payload IS NULL OR payload_bytes IS NULL),
    -- Larger rows are the producer's to hear of: they could not be moved in the time that a settle has.
    CONSTRAINT row_is_at_most_64_mib CHECK (
        length(CAST(coalesce(payload, payload_bytes, '') AS BLOB)) + length(CAST(coalesce(headers, '') AS BLOB))
        + length(CAST(coalesce(event_id, '') AS BLOB)) + length(CAST(coalesce(event_key, '') AS BLOB))
        + length(CAST(event_type AS BLOB)) + length(CAST(aggregate_type AS BLOB)) + length(CAST(aggregate_id AS BLOB))
        + length(CAST(coalesce(content_type, '') AS BLOB)) + length(CAST(coalesce(replay_id, '') AS BLOB)) <= 67108864)
) STRICT;

-- Reads are ranges of this index; the place is part of every index.
CREATE INDEX {outbox_lane} ON {outbox} (lane);

-- What needs time or a person: one row an event and destination. An empty destination: it could not be routed.
CREATE TABLE {outbox_parked} (
    id              INTEGER PRIMARY KEY,
    seq             INTEGER NOT NULL,
    destination     TEXT NOT NULL,
    lane            INTEGER NOT NULL,
    order_key       TEXT NOT NULL,
    event_id        TEXT,
    event_type      TEXT NOT NULL,
    aggregate_type  TEXT NOT NULL,
    aggregate_id    TEXT NOT NULL,
    event_key       TEXT,
    payload         TEXT,
    payload_bytes   BLOB,
    content_type    TEXT,
    headers         TEXT,
    priority        INTEGER,
    available_at    ANY,
    created_at      ANY,
    replay_id       TEXT,
    enqueued_at     INTEGER,
    version         INTEGER NOT NULL,
    dead            INTEGER NOT NULL CHECK (dead IN (0, 1)),
    next_attempt_at INTEGER NOT NULL,
    attempts        INTEGER NOT NULL,
    failures        INTEGER NOT NULL,
    maybe_sent      INTEGER NOT NULL,
    redriven        INTEGER NOT NULL DEFAULT 0,
    error_kind      TEXT,
    error_text      TEXT,
    first_failed_at INTEGER,
    last_failed_at  INTEGER,
    updated_at      INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX {outbox_parked_place} ON {outbox_parked} (seq, destination);
-- What stands in the way of a row of a key and lane.
CREATE INDEX {outbox_parked_line} ON {outbox_parked} (order_key, lane, destination, dead, seq);
-- From head to head of one destination; a closed destination is not looked at, and neither are the dead.
CREATE INDEX {outbox_parked_live} ON {outbox_parked} (destination, order_key, lane, seq, next_attempt_at) WHERE dead = 0;
CREATE INDEX {outbox_parked_event} ON {outbox_parked} (event_id);

-- What was published: one row an event and destination, and what operators threw away.
CREATE TABLE {outbox_sent} (
    id             INTEGER PRIMARY KEY,
    seq            INTEGER NOT NULL,
    destination    TEXT,
    event_id       TEXT NOT NULL,
    event_type     TEXT NOT NULL,
    aggregate_type TEXT NOT NULL,
    aggregate_id   TEXT NOT NULL,
    event_key      TEXT,
    payload        TEXT,
    payload_bytes  BLOB,
    content_type   TEXT,
    headers        TEXT,
    priority       INTEGER,
    available_at   ANY,
    created_at     ANY,
    replay_id      TEXT,
    enqueued_at    INTEGER,
    outcome        TEXT NOT NULL,
    reason         TEXT,
    receipt        TEXT,
    attempts       INTEGER NOT NULL DEFAULT 0,
    failures       INTEGER NOT NULL DEFAULT 0,
    error_kind     TEXT,
    error_text     TEXT,
    last_failed_at INTEGER,
    published_at   INTEGER NOT NULL
) STRICT;

CREATE INDEX {outbox_sent_event} ON {outbox_sent} (event_id);
CREATE INDEX {outbox_sent_place} ON {outbox_sent} (seq);
CREATE INDEX {outbox_sent_time} ON {outbox_sent} (published_at);

-- Who may publish, and who is alive.
CREATE TABLE {outbox_shard} (
    shard      INTEGER PRIMARY KEY,
    owner      TEXT,
    token      INTEGER NOT NULL DEFAULT 0,
    maybe_sent INTEGER NOT NULL DEFAULT 0,
    unclean    INTEGER NOT NULL DEFAULT 0,
    suspect    INTEGER
) STRICT;
-- Not from zero: a relay that outlives its tables must not find its old token in the new ones.
INSERT INTO {outbox_shard} (shard, token) VALUES (0, abs(random() % 1000000000000));

CREATE TABLE {outbox_relay} (
    relay      TEXT PRIMARY KEY,
    expires_at INTEGER NOT NULL,
    in_flight  INTEGER NOT NULL,
    claims     INTEGER NOT NULL,
    version    TEXT NOT NULL
) STRICT;

-- What operators decided. An empty destination: the whole outbox.
CREATE TABLE {outbox_control} (
    destination   TEXT PRIMARY KEY,
    paused        INTEGER NOT NULL DEFAULT 0,
    max_in_flight INTEGER,
    max_rate      INTEGER
) STRICT;

-- What operators did.
CREATE TABLE {outbox_audit} (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    actor   TEXT NOT NULL,
    action  TEXT NOT NULL,
    detail  TEXT NOT NULL,
    touched INTEGER NOT NULL,
    refused INTEGER NOT NULL
) STRICT;

INSERT INTO {outbox_migrations} (version, name, applied_at) VALUES (1, 'tables', {now});
