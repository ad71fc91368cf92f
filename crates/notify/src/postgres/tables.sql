-- What was told to whom: one row a user and event. What is unique in these tables is said at the end.
CREATE TABLE IF NOT EXISTS {notification} (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id    text COLLATE "C" NOT NULL,
    event_type  text NOT NULL,
    audience    text COLLATE "C" NOT NULL,
    workflow    text NOT NULL,
    user_id     text COLLATE "C" NOT NULL,
    category    text COLLATE "C" NOT NULL,
    -- The type of the event is part of it: EventType:resource.
    resource_id text COLLATE "C",
    -- 0: for ever; else which window since 1970.
    period      bigint NOT NULL DEFAULT 0,
    title       text NOT NULL,
    body        text NOT NULL,
    metadata    text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at     timestamptz,
    read_at     timestamptz,
    archived_at timestamptz
);
CREATE INDEX IF NOT EXISTS notification_feed ON {notification} (user_id, id);
CREATE INDEX IF NOT EXISTS notification_unread ON {notification} (user_id, id)
    WHERE read_at IS NULL AND archived_at IS NULL;
CREATE INDEX IF NOT EXISTS notification_time ON {notification} (created_at);

-- By which ways. How a delivery stands is not here: it follows from where its event is in the outbox.
CREATE TABLE IF NOT EXISTS {notification_delivery} (
    notification_id bigint NOT NULL,
    channel         text COLLATE "C" NOT NULL,
    event_id        text COLLATE "C",
    address         text NOT NULL,
    problem         text,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- By the name of the rule: another index of the same would cost every row of a broadcast.
    CONSTRAINT uk_notification_delivery PRIMARY KEY (notification_id, channel)
);

-- Who is there. Ids compare as bytes: a fan-out goes on behind the last one, wherever and whenever that is.
CREATE TABLE IF NOT EXISTS {notification_recipient} (
    id       text COLLATE "C" PRIMARY KEY,
    name     text NOT NULL DEFAULT '',
    locale   text,
    email    text,
    push_url text
);
CREATE TABLE IF NOT EXISTS {notification_subscription} (
    topic   text COLLATE "C" NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (topic, user_id)
);
CREATE INDEX IF NOT EXISTS notification_subscription_user ON {notification_subscription} (user_id, topic);
-- An empty channel or category: any.
CREATE TABLE IF NOT EXISTS {notification_preference} (
    user_id  text COLLATE "C" NOT NULL,
    channel  text COLLATE "C" NOT NULL DEFAULT '',
    category text COLLATE "C" NOT NULL DEFAULT '',
    wanted   boolean NOT NULL,
    PRIMARY KEY (user_id, channel, category)
);

-- Occasions with more members than one chunk, and the last member that was looked at.
CREATE TABLE IF NOT EXISTS {notification_fanout} (
    event_id    text COLLATE "C" PRIMARY KEY,
    occasion    text NOT NULL,
    workflow    text NOT NULL,
    cursor      text COLLATE "C",
    stored      bigint NOT NULL DEFAULT 0,
    -- Why it stands aside until it is resumed.
    problem     text,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz
) WITH (fillfactor = 50);
CREATE INDEX IF NOT EXISTS notification_fanout_open ON {notification_fanout} (created_at) WHERE finished_at IS NULL;
CREATE INDEX IF NOT EXISTS notification_fanout_done ON {notification_fanout} (finished_at)
    WHERE finished_at IS NOT NULL;

-- What is collected for one notification of a user. Items stay after that, so that a repeated event is known.
CREATE TABLE IF NOT EXISTS {notification_digest} (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workflow text COLLATE "C" NOT NULL,
    user_id  text COLLATE "C" NOT NULL,
    due_at   timestamptz NOT NULL,
    -- Why it could not be told the last time.
    problem  text,
    sent_at  timestamptz
);
CREATE INDEX IF NOT EXISTS notification_digest_due ON {notification_digest} (due_at) WHERE sent_at IS NULL;
CREATE INDEX IF NOT EXISTS notification_digest_sent ON {notification_digest} (sent_at) WHERE sent_at IS NOT NULL;
CREATE TABLE IF NOT EXISTS {notification_digest_item} (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    digest_id  bigint NOT NULL,
    workflow   text COLLATE "C" NOT NULL,
    user_id    text COLLATE "C" NOT NULL,
    event_id   text COLLATE "C" NOT NULL,
    -- Empty once it was told.
    occasion   text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX IF NOT EXISTS notification_digest_item_of ON {notification_digest_item} (digest_id, id);

-- What was asked for by a key, so that the key is not used for something else.
CREATE TABLE IF NOT EXISTS {notification_request} (
    event_id    text COLLATE "C" PRIMARY KEY,
    fingerprint text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX IF NOT EXISTS notification_request_time ON {notification_request} (created_at);
