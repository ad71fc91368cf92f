-- What a failure has in common with others; the version that the last edit of the payload made; and the one at which a
-- payload that was edited later was read and sent, so that a settle that says so again is a repeat.
ALTER TABLE {outbox_parked} ADD COLUMN error_group TEXT;
ALTER TABLE {outbox_parked} ADD COLUMN edited INTEGER;
ALTER TABLE {outbox_parked} ADD COLUMN sent_as INTEGER;

ALTER TABLE {outbox_audit} ADD COLUMN job_id TEXT;
ALTER TABLE {outbox_audit} ADD COLUMN event_id TEXT;
CREATE INDEX {outbox_audit_event} ON {outbox_audit} (event_id) WHERE event_id IS NOT NULL;
CREATE INDEX {outbox_audit_time} ON {outbox_audit} (at);

ALTER TABLE {outbox_control} ADD COLUMN actor TEXT;
ALTER TABLE {outbox_control} ADD COLUMN changed_at INTEGER;
ALTER TABLE {outbox_control} ADD COLUMN limited_by TEXT;
ALTER TABLE {outbox_control} ADD COLUMN limited_at INTEGER;

-- Long work that a person began. Its cursor moves in the transaction of each step, so whoever goes on with it knows how
-- far it came. Rows with a place above the bound came later and are not meant.
CREATE TABLE {outbox_job} (
    id         TEXT PRIMARY KEY,
    kind       TEXT NOT NULL,
    spec       TEXT NOT NULL,
    state      TEXT NOT NULL,
    actor      TEXT NOT NULL,
    bound      INTEGER NOT NULL,
    cursor     TEXT,
    touched    INTEGER NOT NULL DEFAULT 0,
    refused    INTEGER NOT NULL DEFAULT 0,
    begun_at   INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    ended_at   INTEGER
) STRICT;

-- What one relay does for all, once a slot.
CREATE TABLE {outbox_duty} (
    name        TEXT PRIMARY KEY,
    slot        INTEGER NOT NULL,
    owner       TEXT,
    expires_at  INTEGER,
    finished_at INTEGER,
    note        TEXT
) STRICT;

-- Payloads as they were before a person changed them, and the version that the row has since: the first one is what the
-- producer wrote, and the first behind a version is what a relay has sent that read that version.
CREATE TABLE {outbox_original} (
    seq           INTEGER NOT NULL,
    destination   TEXT NOT NULL,
    version       INTEGER NOT NULL,
    payload       TEXT,
    payload_bytes BLOB,
    content_type  TEXT,
    actor         TEXT NOT NULL,
    edited_at     INTEGER NOT NULL,
    PRIMARY KEY (seq, destination, version)
) STRICT;

-- What an archive was read back into, for replays. Rows and the cursor of their job are written together: none comes
-- twice.
CREATE TABLE {outbox_restored} (
    id             INTEGER PRIMARY KEY,
    job_id         TEXT NOT NULL,
    restored_at    INTEGER NOT NULL,
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
CREATE INDEX {outbox_restored_place} ON {outbox_restored} (job_id, seq);
CREATE INDEX {outbox_restored_time} ON {outbox_restored} (restored_at);

-- Parked rows as people ask for them. Rows below zero are not events: they are what holds a paused key.
CREATE INDEX {outbox_parked_dead} ON {outbox_parked} (seq, destination, order_key, lane) WHERE dead = 1 AND seq > 0;
CREATE INDEX {outbox_parked_error} ON {outbox_parked}
    (error_kind, seq, destination, error_group, dead, first_failed_at, last_failed_at, updated_at)
    WHERE error_kind IS NOT NULL AND seq > 0;
CREATE INDEX {outbox_parked_group} ON {outbox_parked} (error_group, seq, destination) WHERE error_group IS NOT NULL;
CREATE INDEX {outbox_parked_key} ON {outbox_parked}
    (coalesce(event_key, aggregate_type || '/' || aggregate_id), seq, destination);
CREATE INDEX {outbox_parked_type} ON {outbox_parked} (event_type, seq, destination);
CREATE INDEX {outbox_parked_replay} ON {outbox_parked} (replay_id, dead) WHERE replay_id IS NOT NULL;

-- Parked rows as relays ask for them: lines by their heads, and rows that stand alone by their time, because each of
-- those would be a line of its own that is visited in vain until its time has come. The index of the lines that relays
-- of the version before this one name stays as it was, for them.
CREATE INDEX {outbox_parked_heads} ON {outbox_parked} (destination, order_key, lane, seq, next_attempt_at, error_kind)
    WHERE dead = 0 AND {in_line};
CREATE INDEX {outbox_parked_time} ON {outbox_parked} (destination, next_attempt_at, seq, lane, order_key, error_kind)
    WHERE dead = 0 AND {alone};

-- As before, without the rows below zero; what stands behind one of them is held.
DROP VIEW {outbox_events};
DROP VIEW {outbox_parked_status};
CREATE VIEW {outbox_parked_status} AS
SELECT worded.*,
       CASE status WHEN 'DEAD_LETTER' THEN 0 WHEN 'RETRYING' THEN 1 WHEN 'HELD' THEN 2 WHEN 'WAITING' THEN 3 ELSE 4 END
           AS severity
FROM (
    SELECT p.*,
           CASE
               WHEN p.dead = 1 THEN 'DEAD_LETTER'
               WHEN p.error_kind IS NOT NULL THEN 'RETRYING'
               WHEN EXISTS (
                   SELECT 1 FROM {outbox_parked} b INDEXED BY {outbox_parked_line}
                   WHERE b.order_key = p.order_key AND b.lane = p.lane AND b.destination = ''
                     AND b.dead = 1 AND b.seq < 0
               ) THEN 'HELD'
               WHEN EXISTS (
                   SELECT 1 FROM {outbox_parked} b INDEXED BY {outbox_parked_line}
                   WHERE b.order_key = p.order_key AND b.lane = p.lane AND b.destination = p.destination
                     AND b.dead IN (0, 1) AND b.seq < p.seq
               ) THEN 'WAITING'
               WHEN EXISTS (
                   SELECT 1 FROM {outbox_parked} b INDEXED BY {outbox_parked_line}
                   WHERE b.order_key = p.order_key AND b.lane = p.lane AND b.destination = ''
                     AND b.dead IN (0, 1) AND b.seq < p.seq
               ) THEN 'WAITING'
               WHEN p.next_attempt_at > {now} THEN 'SCHEDULED'
               ELSE 'HELD'
           END AS status
    FROM {outbox_parked} p
    WHERE p.seq > 0
) worded;

-- Every event once, in its worst state, for people and monitoring. Times are UTC in the form of datetime('now'), so that
-- they compare with it. What an operator threw away is neither published nor to be published: `published` is null.
-- `replay_id` names the replay that a row is a copy for; events have none.
CREATE VIEW {outbox_events} AS
SELECT o.seq,
       coalesce(o.event_id, (SELECT outbox_id FROM {outbox_meta}) || '-' || o.seq) AS event_id,
       o.event_type, o.aggregate_type, o.aggregate_id, o.event_key, o.payload, o.payload_bytes, o.content_type,
       o.headers, coalesce(o.priority, 0) AS priority, o.available_at,
       'PENDING' AS status, 0 AS published, NULL AS destination,
       0 AS retry_count, 10 AS max_retry, NULL AS last_retry_at, NULL AS next_attempt_at,
       {created o} AS created_at, NULL AS updated_at, NULL AS published_at,
       NULL AS error_kind, NULL AS last_error, NULL AS error_message, o.replay_id
FROM {outbox} o
UNION ALL
SELECT p.seq,
       coalesce(p.event_id, (SELECT outbox_id FROM {outbox_meta}) || '-' || p.seq),
       p.event_type, p.aggregate_type, p.aggregate_id, p.event_key, p.payload, p.payload_bytes, p.content_type,
       p.headers, coalesce(p.priority, 0), p.available_at,
       p.status, 0, nullif(p.destination, ''),
       p.failures, 10, {iso p.last_failed_at}, CASE WHEN p.dead = 0 THEN {iso p.next_attempt_at} END,
       {created p}, {iso p.updated_at}, NULL,
       p.error_kind, p.error_text, p.error_text, p.replay_id
FROM {outbox_parked_status} p
WHERE p.id = (
    SELECT w.id FROM {outbox_parked_status} w WHERE w.seq = p.seq ORDER BY w.severity, w.id LIMIT 1
)
UNION ALL
SELECT s.seq, s.event_id,
       s.event_type, s.aggregate_type, s.aggregate_id, s.event_key, s.payload, s.payload_bytes, s.content_type,
       s.headers, coalesce(s.priority, 0), s.available_at,
       CASE s.outcome WHEN 'published' THEN 'PUBLISHED' ELSE 'DISCARDED' END,
       CASE s.outcome WHEN 'published' THEN 1 END, nullif(s.destination, ''),
       s.failures, 10, {iso s.last_failed_at}, NULL,
       {created s}, {iso s.published_at}, CASE s.outcome WHEN 'published' THEN {iso s.published_at} END,
       s.error_kind,
       CASE s.outcome WHEN 'published' THEN s.error_text ELSE s.reason END,
       CASE s.outcome WHEN 'published' THEN s.error_text ELSE s.reason END, s.replay_id
FROM {outbox_sent} s
WHERE s.id = (
    SELECT l.id FROM {outbox_sent} l
    WHERE l.seq = s.seq AND l.outcome IN ('published', 'discarded')
    ORDER BY l.outcome = 'published', l.id DESC LIMIT 1
)
  AND NOT EXISTS (SELECT 1 FROM {outbox_parked} p WHERE p.seq = s.seq);

INSERT INTO {outbox_migrations} (version, name, applied_at) VALUES (3, 'lifecycle', {now});
