CREATE TABLE {outbox_migrations} (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- An id that is a UUID of version 7: time-ordered, because random ids cost every index a page of its own.
CREATE FUNCTION {outbox_make_id}() RETURNS text LANGUAGE sql VOLATILE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
        PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
        FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid::text
$$;

-- What is still to be published. Any language inserts here, in its own transaction. Insert and delete only.
-- ALWAYS and CACHE 1: places are handed out in one order, which the floors of the relays rest on.
-- shard and lane are total: no row may land where no relay looks.
CREATE TABLE {outbox} (
    seq            bigint GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME {outbox_seq} CACHE 1) PRIMARY KEY CHECK (seq > 0),
    event_id       text COLLATE "C" UNIQUE,
    event_type     text NOT NULL,
    aggregate_type text NOT NULL,
    aggregate_id   text NOT NULL,
    event_key      text,
    payload        text CHECK (payload IS NULL OR left(payload, 2) <> '\x'),
    payload_bytes  bytea,
    content_type   text,
    headers        text,
    priority       integer,
    available_at   timestamptz,
    created_at     timestamptz,
    replay_id      text,
    enqueued_at    timestamptz DEFAULT clock_timestamp(),
    shard          smallint NOT NULL GENERATED ALWAYS AS (
        (('x' || substr(md5(coalesce(event_key, aggregate_type || E'\x1f' || aggregate_id)), 1, 4))::bit(16)::integer % {shards})::smallint
    ) STORED,
    lane           smallint NOT NULL GENERATED ALWAYS AS (sign(coalesce(priority, 0))::smallint) STORED,
    CHECK (payload IS NULL OR payload_bytes IS NULL),
    -- Larger rows are the producer's to hear of: they could not be moved in the time that a settle has.
    CONSTRAINT row_is_at_most_64_mib CHECK (
        coalesce(octet_length(payload), octet_length(payload_bytes), 0)::bigint + coalesce(octet_length(headers), 0)
        + coalesce(octet_length(event_id), 0) + coalesce(octet_length(event_key), 0) + octet_length(event_type)
        + octet_length(aggregate_type) + octet_length(aggregate_id) + coalesce(octet_length(content_type), 0)
        + coalesce(octet_length(replay_id), 0) <= 67108864)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_analyze_scale_factor = 0.1
);
-- One number for shard and lane: an index scan checks every entry of its page, so a second column would cost more than the
-- rows that are wanted.
CREATE INDEX {name outbox_range} ON {outbox} ((shard * 4 + lane), seq);

-- Most producers give an id; only the others pay for this trigger.
CREATE FUNCTION {outbox_fill_id}() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.event_id := {outbox_make_id}();
    RETURN NEW;
END $$;
CREATE TRIGGER {name outbox_fill_id} BEFORE INSERT ON {outbox}
    FOR EACH ROW WHEN (NEW.event_id IS NULL) EXECUTE FUNCTION {outbox_fill_id}();

-- What needs time or a person: one row an event and destination. An empty destination: it could not be routed.
-- line is the hash of order_key: a key of any length may be parked, whereas an index entry is bounded.
CREATE TABLE {outbox_parked} (
    seq             bigint NOT NULL,
    destination     text COLLATE "C" NOT NULL,
    shard           smallint NOT NULL,
    lane            smallint NOT NULL,
    order_key       text NOT NULL,
    line            uuid NOT NULL,
    event_id        text COLLATE "C" NOT NULL,
    event_type      text NOT NULL,
    aggregate_type  text NOT NULL,
    aggregate_id    text NOT NULL,
    event_key       text,
    payload         text,
    payload_bytes   bytea,
    content_type    text,
    headers         text,
    priority        integer,
    available_at    timestamptz,
    created_at      timestamptz,
    replay_id       text,
    enqueued_at     timestamptz,
    version         bigint NOT NULL,
    dead            boolean NOT NULL,
    next_attempt_at timestamptz NOT NULL,
    attempts        bigint NOT NULL,
    failures        bigint NOT NULL,
    maybe_sent      boolean NOT NULL,
    redriven        boolean NOT NULL DEFAULT false,
    error_kind      text,
    error_text      text,
    first_failed_at timestamptz,
    last_failed_at  timestamptz,
    updated_at      timestamptz NOT NULL,
    PRIMARY KEY (seq, destination)
) WITH (
    fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
-- What stands in the way of a row of a key and lane.
CREATE INDEX {name outbox_parked_line} ON {outbox_parked} (line, lane, destination, dead, seq);
-- From head to head; a closed destination is passed over in one step, and the dead are not in it.
CREATE INDEX {name outbox_parked_live} ON {outbox_parked} (shard, destination, line, lane, seq) WHERE NOT dead;
CREATE INDEX {name outbox_parked_event} ON {outbox_parked} (event_id);

-- What was published, one row an event and destination, and what operators threw away; by day.
CREATE TABLE {outbox_sent} (
    seq            bigint NOT NULL,
    destination    text COLLATE "C",
    event_id       text COLLATE "C" NOT NULL,
    event_type     text NOT NULL,
    aggregate_type text NOT NULL,
    aggregate_id   text NOT NULL,
    event_key      text,
    payload        text,
    payload_bytes  bytea,
    content_type   text,
    headers        text,
    priority       integer,
    available_at   timestamptz,
    created_at     timestamptz,
    replay_id      text,
    enqueued_at    timestamptz,
    outcome        text NOT NULL,
    reason         text,
    receipt        text,
    attempts       bigint NOT NULL DEFAULT 0,
    failures       bigint NOT NULL DEFAULT 0,
    error_kind     text,
    error_text     text,
    last_failed_at timestamptz,
    published_at   timestamptz NOT NULL
) PARTITION BY RANGE (published_at);
CREATE INDEX {name outbox_sent_event} ON {outbox_sent} (event_id);
-- History comes almost in the order of places, so this index is a few pages however long the history is. Stretches are
-- summarized by the VACUUM of their day: `autosummarize` asks for each one as soon as it is full, and from a thousand
-- events a second on the server writes a line to its log for every one that it has no room to remember.
CREATE INDEX {name outbox_sent_place} ON {outbox_sent} USING brin (seq) WITH (pages_per_range = 16);

-- Counts that survive the clean-up of the history. One row a slot, so that relays do not wait for each other.
CREATE TABLE {outbox_counter} (
    slot       smallint PRIMARY KEY,
    published  bigint NOT NULL DEFAULT 0,
    duplicates bigint NOT NULL DEFAULT 0,
    dropped    bigint NOT NULL DEFAULT 0,
    discarded  bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);

-- Who may publish, and who is alive.
CREATE TABLE {outbox_shard} (
    shard      smallint PRIMARY KEY,
    owner      text,
    token      bigint NOT NULL DEFAULT 0,
    maybe_sent bigint NOT NULL DEFAULT 0,
    unclean    bigint NOT NULL DEFAULT 0,
    suspect    bigint
) WITH (fillfactor = 50);
-- Not from zero: a relay that outlives its tables must not find its old token in the new ones.
INSERT INTO {outbox_shard} (shard, token)
    SELECT n, floor(random() * 1000000000000)::bigint FROM generate_series(0, {shards} - 1) n;

CREATE TABLE {outbox_relay} (
    relay      text PRIMARY KEY,
    expires_at timestamptz NOT NULL,
    in_flight  bigint NOT NULL,
    claims     boolean NOT NULL,
    version    text NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);

-- What operators decided. An empty destination: the whole outbox.
CREATE TABLE {outbox_control} (
    destination   text COLLATE "C" PRIMARY KEY,
    paused        boolean NOT NULL DEFAULT false,
    max_in_flight bigint,
    max_rate      bigint
);

-- What operators did.
CREATE TABLE {outbox_audit} (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor   text NOT NULL,
    action  text NOT NULL,
    detail  text NOT NULL,
    touched bigint NOT NULL,
    refused bigint NOT NULL
);

INSERT INTO {outbox_migrations} (version, name) VALUES (1, 'tables');
