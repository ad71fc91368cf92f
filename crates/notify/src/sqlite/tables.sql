-- What was told to whom: one row a user and event. What is unique in these tables is said at the end. Times are
-- microseconds since 1970.
-- AUTOINCREMENT: a feed goes on behind an id, which must not be given to a second notification.
CREATE TABLE IF NOT EXISTS notification (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id    TEXT NOT NULL,
    event_type  TEXT NOT NULL,
    audience    TEXT NOT NULL,
    workflow    TEXT NOT NULL,
    user_id     TEXT NOT NULL,
    category    TEXT NOT NULL,
    -- The type of the event is part of it: EventType:resource.
    resource_id TEXT,
    -- 0: for ever; else which window since 1970.
    period      INTEGER NOT NULL DEFAULT 0,
    title       TEXT NOT NULL,
    body        TEXT NOT NULL,
    metadata    TEXT NOT NULL,
    created_at  INTEGER NOT NULL DEFAULT ({now}),
    seen_at     INTEGER,
    read_at     INTEGER,
    archived_at INTEGER
) STRICT;
CREATE INDEX IF NOT EXISTS notification_feed ON notification (user_id, id);
CREATE INDEX IF NOT EXISTS notification_unread ON notification (user_id, id)
    WHERE read_at IS NULL AND archived_at IS NULL;
CREATE INDEX IF NOT EXISTS notification_time ON notification (created_at);

-- By which ways. How a delivery stands is not here: it follows from where its event is in the outbox.
CREATE TABLE IF NOT EXISTS notification_delivery (
    notification_id INTEGER NOT NULL,
    channel         TEXT NOT NULL,
    event_id        TEXT,
    address         TEXT NOT NULL,
    problem         TEXT,
    created_at      INTEGER NOT NULL DEFAULT ({now})
) STRICT;

-- Who is there. Ids compare as bytes: a fan-out goes on behind the last one.
CREATE TABLE IF NOT EXISTS notification_recipient (
    id       TEXT PRIMARY KEY,
    name     TEXT NOT NULL DEFAULT '',
    locale   TEXT,
    email    TEXT,
    push_url TEXT
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS notification_subscription (
    topic   TEXT NOT NULL,
    user_id TEXT NOT NULL,
    PRIMARY KEY (topic, user_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS notification_subscription_user ON notification_subscription (user_id, topic);
-- An empty channel or category: any.
CREATE TABLE IF NOT EXISTS notification_preference (
    user_id  TEXT NOT NULL,
    channel  TEXT NOT NULL DEFAULT '',
    category TEXT NOT NULL DEFAULT '',
    wanted   INTEGER NOT NULL CHECK (wanted IN (0, 1)),
    PRIMARY KEY (user_id, channel, category)
) STRICT, WITHOUT ROWID;

-- Occasions with more members than one chunk, and the last member that was looked at.
CREATE TABLE IF NOT EXISTS notification_fanout (
    event_id    TEXT PRIMARY KEY,
    occasion    TEXT NOT NULL,
    workflow    TEXT NOT NULL,
    cursor      TEXT,
    stored      INTEGER NOT NULL DEFAULT 0,
    -- Why it stands aside until it is resumed.
    problem     TEXT,
    created_at  INTEGER NOT NULL DEFAULT ({now}),
    finished_at INTEGER
) STRICT;
CREATE INDEX IF NOT EXISTS notification_fanout_open ON notification_fanout (created_at) WHERE finished_at IS NULL;
CREATE INDEX IF NOT EXISTS notification_fanout_done ON notification_fanout (finished_at) WHERE finished_at IS NOT NULL;

-- What is collected for one notification of a user. Items stay after that, so that a repeated event is known.
CREATE TABLE IF NOT EXISTS notification_digest (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    workflow TEXT NOT NULL,
    user_id  TEXT NOT NULL,
    due_at   INTEGER NOT NULL,
    -- Why it could not be told the last time.
    problem  TEXT,
    sent_at  INTEGER
) STRICT;
CREATE INDEX IF NOT EXISTS notification_digest_due ON notification_digest (due_at) WHERE sent_at IS NULL;
CREATE INDEX IF NOT EXISTS notification_digest_sent ON notification_digest (sent_at) WHERE sent_at IS NOT NULL;
CREATE TABLE IF NOT EXISTS notification_digest_item (
    id         INTEGER PRIMARY KEY,
    digest_id  INTEGER NOT NULL,
    workflow   TEXT NOT NULL,
    user_id    TEXT NOT NULL,
    event_id   TEXT NOT NULL,
    -- Empty once it was told.
    occasion   TEXT NOT NULL,
    created_at INTEGER NOT NULL DEFAULT ({now})
) STRICT;
CREATE INDEX IF NOT EXISTS notification_digest_item_of ON notification_digest_item (digest_id, id);

-- What was asked for by a key, so that the key is not used for something else.
CREATE TABLE IF NOT EXISTS notification_request (
    event_id    TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    created_at  INTEGER NOT NULL DEFAULT ({now})
) STRICT;
CREATE INDEX IF NOT EXISTS notification_request_time ON notification_request (created_at);
