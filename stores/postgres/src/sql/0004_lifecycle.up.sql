-- What people need: jobs that outlive who began them, the words of errors by what they have in common, payloads before they
-- were changed, and indexes for what is asked. The views name all columns of the parked rows, so they are made anew.
--
-- Relays and producers are at work meanwhile. Nothing here reads the history, however long it is; locks are taken in the
-- order in which a query of the views takes them; and the table of parked rows, which every read and settle needs, comes
-- last, when nothing is left to wait for.
DROP VIEW {outbox_events};
DROP VIEW {outbox_parked_status};

ALTER TABLE {outbox_audit} ADD COLUMN job_id text, ADD COLUMN event_id text;
CREATE INDEX {name outbox_audit_event} ON {outbox_audit} (event_id) WHERE event_id IS NOT NULL;
CREATE INDEX {name outbox_audit_time} ON {outbox_audit} (at);
ALTER TABLE {outbox_control} ADD COLUMN actor text, ADD COLUMN changed_at timestamptz, ADD COLUMN limited_by text,
    ADD COLUMN limited_at timestamptz;

-- Rows with a place above bound came after the job and are not meant by it.
CREATE TABLE {outbox_job} (
    id         text COLLATE "C" PRIMARY KEY,
    kind       text NOT NULL,
    spec       text NOT NULL,
    state      text NOT NULL,
    actor      text NOT NULL,
    bound      bigint NOT NULL,
    cursor     text,
    touched    bigint NOT NULL DEFAULT 0,
    refused    bigint NOT NULL DEFAULT 0,
    begun_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at   timestamptz
);

-- What one relay does for all, once a slot.
CREATE TABLE {outbox_duty} (
    name        text COLLATE "C" PRIMARY KEY,
    slot        timestamptz NOT NULL,
    owner       text,
    expires_at  timestamptz,
    finished_at timestamptz,
    note        text
);

-- What a person changed, as it was before, and the version that the row has since: the first one is what the producer wrote,
-- and the first behind a version is what a relay has sent that read that version.
CREATE TABLE {outbox_original} (
    seq           bigint NOT NULL,
    destination   text COLLATE "C" NOT NULL,
    version       bigint NOT NULL,
    payload       text,
    payload_bytes bytea,
    content_type  text,
    actor         text NOT NULL,
    edited_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (seq, destination, version)
);

-- What was read back from an archive, for a replay to send again.
CREATE TABLE {outbox_restored} (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id      text COLLATE "C" NOT NULL,
    restored_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    LIKE {outbox_sent}
);
CREATE INDEX {name outbox_restored_place} ON {outbox_restored} (job_id, seq);
CREATE INDEX {name outbox_restored_time} ON {outbox_restored} (restored_at);

-- Places of the rows that hold a paused key: below those of all events.
CREATE SEQUENCE {outbox_marker} INCREMENT -1 MAXVALUE -1 MINVALUE -9223372036854775807 START -1;

-- Stretches of the history that cannot hold a key or a type are passed over, and those outside the places that are asked
-- for. The sum is no column of any other index: whoever asks for it is led here, whatever the planner knows of the day.
-- It is written by the VACUUM of a day, so a settle does not pay for it. Days that hold nothing yet have it at once,
-- as have those that are made later; for the others it is built by `postrider migrate up`, beside the relays, or with
-- CREATE INDEX CONCURRENTLY for each day.
CREATE INDEX {name outbox_sent_search} ON ONLY {outbox_sent} USING brin (
    (seq + 0) int8_minmax_ops,
    (coalesce(event_key, aggregate_type || '/' || aggregate_id))
        text_bloom_ops (n_distinct_per_range = 512, false_positive_rate = 0.001),
    event_type text_bloom_ops (n_distinct_per_range = 64, false_positive_rate = 0.001)
) WITH (pages_per_range = 16);
DO $$
DECLARE
    day regclass;
    filled boolean;
BEGIN
    FOR day IN SELECT i.inhrelid::regclass FROM pg_inherits i WHERE i.inhparent = '{outbox_sent}'::regclass LOOP
        EXECUTE format('SELECT EXISTS (SELECT 1 FROM %s)', day) INTO filled;
        CONTINUE WHEN filled;
        EXECUTE format('CREATE INDEX %I ON %s%s', (SELECT relname || '_search' FROM pg_class WHERE oid = day), day,
            substring(pg_get_indexdef('{outbox_sent_search}'::regclass) FROM ' USING .*'));
        EXECUTE format('ALTER INDEX {outbox_sent_search} ATTACH PARTITION %s.%I', {literal schema},
            (SELECT relname || '_search' FROM pg_class WHERE oid = day));
    END LOOP;
END $$;

-- The audit can only be added to, by whoever uses the tables, and only grows old.
CREATE FUNCTION {outbox_forget_audit}(older interval, most integer) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH gone AS (
        DELETE FROM {outbox_audit} a WHERE a.id IN (
            SELECT o.id FROM {outbox_audit} o WHERE o.at < clock_timestamp() - older ORDER BY o.at LIMIT most
        ) RETURNING 1
    ) SELECT count(*) FROM gone
$$;
REVOKE ALL ON FUNCTION {outbox_forget_audit}(interval, integer) FROM PUBLIC;

-- `edited` is the version that the last edit of the payload made, `sent_as` the one at which a payload that was edited later
-- was read and sent: a settle that says so again is a repeat.
ALTER TABLE {outbox_parked} ADD COLUMN error_group text, ADD COLUMN edited bigint, ADD COLUMN sent_as bigint;

-- What people ask of parked rows. Keys and types may be longer than an index entry, so their hashes are kept.
CREATE INDEX {name outbox_parked_dead} ON {outbox_parked} (seq, destination) WHERE dead AND seq > 0;
CREATE INDEX {name outbox_parked_error} ON {outbox_parked} (destination, error_kind, error_group, seq)
    INCLUDE (dead, first_failed_at, last_failed_at) WHERE error_kind IS NOT NULL AND seq > 0;
CREATE INDEX {name outbox_parked_key} ON {outbox_parked}
    (md5(coalesce(event_key, aggregate_type || '/' || aggregate_id)), seq) WHERE seq > 0;
CREATE INDEX {name outbox_parked_type} ON {outbox_parked} (md5(event_type), seq) WHERE seq > 0;
CREATE INDEX {name outbox_parked_replay} ON {outbox_parked} (replay_id) WHERE replay_id IS NOT NULL;

-- What relays ask. A scheduled event stands alone: it waits for its time and for nobody, so it is found by its time, and a
-- read that goes from line to line never meets it. The index that holds both stays, for the relays of the version before
-- this one, which find no other.
CREATE INDEX {name outbox_parked_heads} ON {outbox_parked} (shard, destination, line, lane, seq)
    WHERE NOT dead AND left(order_key, 7) <> E'\x1falone\x1f';
CREATE INDEX {name outbox_parked_time} ON {outbox_parked} (shard, destination, next_attempt_at, seq) INCLUDE (error_kind)
    WHERE NOT dead AND left(order_key, 7) = E'\x1falone\x1f';

-- Parked rows with the word that people see. The word follows from the row and from what stands before it; it is stored
-- nowhere, so nothing can leave a stale one behind. A smaller severity is worse. Rows below zero are no events: they hold
-- the events of a paused key.
CREATE VIEW {outbox_parked_status} AS
SELECT worded.*,
       CASE status WHEN 'DEAD_LETTER' THEN 0 WHEN 'RETRYING' THEN 1 WHEN 'HELD' THEN 2 WHEN 'WAITING' THEN 3 ELSE 4 END
           AS severity
FROM (
    SELECT p.*,
           CASE
               WHEN p.dead THEN 'DEAD_LETTER'
               WHEN p.error_kind IS NOT NULL THEN 'RETRYING'
               WHEN EXISTS (
                   SELECT 1 FROM {outbox_parked} b
                   WHERE b.line = p.line AND b.lane = p.lane AND b.destination = '' AND b.seq < 0
               ) THEN 'HELD'
               WHEN EXISTS (
                   SELECT 1 FROM {outbox_parked} b
                   WHERE b.line = p.line AND b.lane = p.lane AND b.destination IN (p.destination, '') AND b.seq < p.seq
               ) THEN 'WAITING'
               WHEN p.next_attempt_at > clock_timestamp() THEN 'SCHEDULED'
               ELSE 'HELD'
           END AS status
    FROM {outbox_parked} p
    WHERE p.seq > 0
) worded;

-- Every event once, in its worst state, for people and monitoring. What an operator threw away is neither
-- published nor to be published: `published` is null. `replay_id` names the replay that a row is a copy for; events have
-- none.
CREATE VIEW {outbox_events} AS
SELECT o.seq, o.event_id, o.event_type, o.aggregate_type, o.aggregate_id, o.event_key, o.payload, o.payload_bytes,
       o.content_type, o.headers, coalesce(o.priority, 0) AS priority, o.available_at,
       'PENDING'::text AS status, false AS published, NULL::text AS destination,
       0::bigint AS retry_count, 10 AS max_retry, NULL::timestamptz AS last_retry_at,
       NULL::timestamptz AS next_attempt_at,
       coalesce(o.created_at, o.enqueued_at) AS created_at, NULL::timestamptz AS updated_at,
       NULL::timestamptz AS published_at,
       NULL::text AS error_kind, NULL::text AS last_error, NULL::text AS error_message, o.replay_id
FROM {outbox} o
UNION ALL
SELECT p.seq, p.event_id, p.event_type, p.aggregate_type, p.aggregate_id, p.event_key, p.payload, p.payload_bytes,
       p.content_type, p.headers, coalesce(p.priority, 0), p.available_at,
       p.status, false, nullif(p.destination, ''),
       p.failures, 10, p.last_failed_at, CASE WHEN NOT p.dead THEN p.next_attempt_at END,
       coalesce(p.created_at, p.enqueued_at), p.updated_at, NULL,
       p.error_kind, p.error_text, p.error_text, p.replay_id
FROM {outbox_parked_status} p
WHERE NOT EXISTS (
    SELECT 1 FROM {outbox_parked_status} w
    WHERE w.seq = p.seq AND (w.severity, w.destination) < (p.severity, p.destination)
)
UNION ALL
SELECT s.seq, s.event_id, s.event_type, s.aggregate_type, s.aggregate_id, s.event_key, s.payload, s.payload_bytes,
       s.content_type, s.headers, coalesce(s.priority, 0), s.available_at,
       CASE s.outcome WHEN 'published' THEN 'PUBLISHED' ELSE 'DISCARDED' END,
       CASE s.outcome WHEN 'published' THEN true END, nullif(s.destination, ''),
       s.failures, 10, s.last_failed_at, NULL,
       coalesce(s.created_at, s.enqueued_at), s.published_at, CASE s.outcome WHEN 'published' THEN s.published_at END,
       s.error_kind,
       CASE s.outcome WHEN 'published' THEN s.error_text ELSE s.reason END,
       CASE s.outcome WHEN 'published' THEN s.error_text ELSE s.reason END, s.replay_id
FROM {outbox_sent} s
WHERE s.outcome IN ('published', 'discarded')
  AND NOT EXISTS (
      SELECT 1 FROM {outbox_sent} l
      WHERE l.event_id = s.event_id AND l.seq = s.seq AND l.outcome IN ('published', 'discarded')
        AND (l.outcome = 'discarded', l.published_at, coalesce(l.destination, ''), l.ctid)
          > (s.outcome = 'discarded', s.published_at, coalesce(s.destination, ''), s.ctid)
  )
  AND NOT EXISTS (SELECT 1 FROM {outbox_parked} p WHERE p.seq = s.seq);

INSERT INTO {outbox_migrations} (version, name) VALUES (4, 'lifecycle');
