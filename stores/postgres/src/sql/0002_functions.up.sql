-- One heartbeat: registers or renews the relay, releases and claims shards, answers with what it owns. A function,
-- because its steps need snapshots of their own and one round trip. Heartbeats of one outbox take turns.
CREATE FUNCTION {outbox_heartbeat}(
    me text, term interval, takes boolean, in_window bigint, me_version text,
    held_shards smallint[], held_tokens bigint[], given_shards smallint[], given_tokens bigint[],
    suspect_shards smallint[], suspect_seqs bigint[], counts_from integer,
    OUT share smallint, OUT leases text[], OUT controls text[]
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    moment timestamptz;
    believable timestamptz;
    released smallint[];
    own bigint;
BEGIN
    -- Not an advisory lock, which any login could take and keep.
    LOCK TABLE {outbox_relay} IN SHARE ROW EXCLUSIVE MODE;
    moment := clock_timestamp();
    -- A lease that ends later was written before the clock was set back; waiting for its end could take years.
    believable := moment + 10 * term + interval '1 minute';
    INSERT INTO {outbox_relay} AS r (relay, expires_at, in_flight, claims, version)
    VALUES (me, moment + term, in_window, takes, me_version)
    ON CONFLICT (relay) DO UPDATE
        SET expires_at = excluded.expires_at, in_flight = excluded.in_flight, claims = excluded.claims;

    -- A release is a change of owner too: the token moves, and what the relay sends after it is fenced.
    WITH gone AS (
        UPDATE {outbox_shard} s SET owner = NULL, token = s.token + 1, maybe_sent = 0, unclean = 0, suspect = NULL
        FROM unnest(given_shards, given_tokens) g(shard, token)
        WHERE s.shard = g.shard AND s.owner = me AND s.token = g.token
        RETURNING s.shard
    ) SELECT coalesce(array_agg(gone.shard), '{}') INTO released FROM gone;

    -- A difference from what the relay remembers means that an answer was lost: claimed anew, or let go when stopping.
    UPDATE {outbox_shard} s SET token = s.token + 1, owner = CASE WHEN takes THEN s.owner END, suspect = -abs(s.suspect)
    WHERE s.owner = me AND NOT EXISTS (
        SELECT 1 FROM unnest(held_shards, held_tokens) h(shard, token) WHERE h.shard = s.shard AND h.token = s.token
    );

    -- Whoever sleeps beside it asks at once for what was given up.
    IF (NOT takes OR cardinality(released) > 0) AND pg_notification_queue_usage() < 0.5 THEN
        PERFORM pg_notify('postrider_' || '{outbox}'::regclass::oid, '');
    END IF;

    -- Another suspect has a count of its own: it is found guilty by its own ends, not by those of others.
    UPDATE {outbox_shard} s SET suspect = u.seq,
        unclean = CASE WHEN abs(s.suspect) IS DISTINCT FROM u.seq THEN least(s.unclean, counts_from) ELSE s.unclean END
    FROM unnest(suspect_shards, suspect_seqs) u(shard, seq)
    WHERE s.shard = u.shard AND s.owner = me AND EXISTS (
        SELECT 1 FROM unnest(held_shards, held_tokens) h(shard, token) WHERE h.shard = s.shard AND h.token = s.token
    );

    -- Shards divided by live relays, rounded up; one that is stopping does not count.
    share := 0;
    IF takes THEN
        SELECT ceil((SELECT count(*) FROM {outbox_shard})::numeric / greatest(1,
            (SELECT count(*) FROM {outbox_relay} r WHERE r.claims AND r.expires_at > moment
                AND r.expires_at <= believable)))::smallint INTO share;
        SELECT count(*) INTO own FROM {outbox_shard} s WHERE s.owner = me;
        -- Not those given up in this very call, which are meant for others. A row locked by a settle waits for the next beat.
        UPDATE {outbox_shard} s SET token = s.token + 1, owner = me,
            -- A suspect that the new owner has not tried yet is negative: of a shard that needs care only the ends count
            -- at which its suspect was on trial.
            unclean = s.unclean
                + (s.owner IS NOT NULL AND (s.unclean < counts_from OR coalesce(s.suspect, 0) > 0))::integer,
            suspect = -abs(s.suspect),
            -- Of what the owner before the last had in hand, some may be unmarked still.
            maybe_sent = greatest(s.maybe_sent, (SELECT r.in_flight FROM {outbox_relay} r WHERE r.relay = s.owner))
        WHERE s.shard IN (
            SELECT c.shard FROM {outbox_shard} c
            WHERE c.owner IS DISTINCT FROM me AND c.shard <> ALL (released)
              AND NOT EXISTS (SELECT 1 FROM {outbox_relay} r WHERE r.relay = c.owner AND r.expires_at > moment
                  AND r.expires_at <= believable)
            ORDER BY c.shard LIMIT greatest(0, share - own) FOR UPDATE SKIP LOCKED
        );
    END IF;

    -- An owner's row stays: its window is needed at the takeover.
    DELETE FROM {outbox_relay} r WHERE (NOT r.claims OR r.expires_at <= moment)
        AND NOT EXISTS (SELECT 1 FROM {outbox_shard} s WHERE s.owner = r.relay);

    SELECT coalesce(array_agg(concat_ws(' ', s.shard, s.token, s.maybe_sent, s.unclean, abs(s.suspect)) ORDER BY s.shard), '{}')
    INTO leases FROM {outbox_shard} s WHERE s.owner = me;
    SELECT coalesce(array_agg(concat_ws(' ', c.paused::integer, coalesce(c.max_in_flight, -1), coalesce(c.max_rate, -1),
        c.destination) ORDER BY c.destination), '{}')
    INTO controls FROM {outbox_control} c;
END $$;

-- Rings only while a relay sleeps on the shard: NOTIFY takes a lock of the whole cluster at commit. The shared lock, kept
-- until the end of the transaction, tells a relay that goes to sleep that something is on its way. It is tried in the
-- condition of the trigger, so that nothing is called while nobody sleeps: a function of its own for every statement cost
-- producers a seventh of their rate. A queue of notifications that somebody lets fill up would fail the commit in the end:
-- half full, nobody is rung for, and the poll finds the event.
CREATE FUNCTION {outbox_ring}() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF pg_notification_queue_usage() < 0.5 THEN
        PERFORM pg_notify('postrider_' || TG_RELID, '');
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER {name outbox_ring} AFTER INSERT ON {outbox} FOR EACH ROW
    WHEN (NOT pg_try_advisory_xact_lock_shared((NEW.tableoid::bigint - 2147483648)::integer, NEW.shard))
    EXECUTE FUNCTION {outbox_ring}();
{strict}
-- Producing from SQL: answers the id.
CREATE FUNCTION {outbox_send}(
    event_type text, aggregate_type text, aggregate_id text, payload text DEFAULT NULL, headers text DEFAULT NULL,
    event_id text DEFAULT NULL, event_key text DEFAULT NULL, payload_bytes bytea DEFAULT NULL,
    content_type text DEFAULT NULL, priority integer DEFAULT NULL, available_at timestamptz DEFAULT NULL
) RETURNS text LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO {outbox} (event_id, event_type, aggregate_type, aggregate_id, event_key, payload, payload_bytes,
        content_type, headers, priority, available_at)
    VALUES (event_id, event_type, aggregate_type, aggregate_id, event_key, payload, payload_bytes,
        content_type, headers, priority, available_at)
    RETURNING event_id
$$;

-- Keeps the partitions of the history: made and then attached, from yesterday to a week ahead, removed after `keep`.
-- Only removing needs a lock that others would queue behind, so it gives up after 50 ms and is tried again next time:
-- DETACH … CONCURRENTLY is refused inside a function, and the relay's role owns no table. Answers how many were removed.
CREATE FUNCTION {outbox_maintain}(keep interval DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    day date;
    part text;
    place regclass;
    removed integer := 0;
BEGIN
    -- Without a term it is called by one who needs a partition now, and so waits for whoever is making it.
    IF keep IS NULL THEN
        LOCK TABLE {outbox_migrations} IN SHARE ROW EXCLUSIVE MODE;
    ELSE
        BEGIN
            LOCK TABLE {outbox_migrations} IN SHARE ROW EXCLUSIVE MODE NOWAIT;
        EXCEPTION WHEN lock_not_available THEN
            RETURN 0;
        END;
    END IF;
    PERFORM set_config('lock_timeout', '1s', true);
    FOR day IN SELECT generate_series(current_date - 1, current_date + 7, '1 day')::date LOOP
        part := {literal outbox_sent_} || to_char(day, 'YYYYMMDD');
        place := to_regclass({literal schema} || '.' || quote_ident(part));
        CONTINUE WHEN EXISTS (
            SELECT 1 FROM pg_inherits i WHERE i.inhparent = '{outbox_sent}'::regclass AND i.inhrelid = place);
        IF place IS NULL THEN
            -- VACUUM summarizes what was added, and every listing reads what is not summarized: it comes every minute.
            EXECUTE format('CREATE TABLE %s.%I (LIKE {outbox_sent} INCLUDING DEFAULTS INCLUDING STORAGE) WITH (
                autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000,
                autovacuum_vacuum_cost_delay = 0)', {literal schema}, part);
        END IF;
        -- One that somebody detached comes back with what it holds: without it nothing of its day could be settled.
        EXECUTE format('ALTER TABLE {outbox_sent} ATTACH PARTITION %s.%I FOR VALUES FROM (%L) TO (%L)',
            {literal schema}, part, day::timestamptz, (day + 1)::timestamptz);
    END LOOP;
    IF keep IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM set_config('lock_timeout', '50ms', true);
    FOR part IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = '{outbox_sent}'::regclass
          AND c.relname ~ ('^' || {literal outbox_sent_} || '[0-9]{8}$')
          AND to_date(right(c.relname, 8), 'YYYYMMDD') + 1 < (clock_timestamp() - keep)::date
        ORDER BY c.relname
    LOOP
        BEGIN
            EXECUTE format('DROP TABLE %s.%I', {literal schema}, part);
            removed := removed + 1;
        EXCEPTION WHEN lock_not_available THEN
            RETURN removed;
        END;
    END LOOP;
    RETURN removed;
END $$;
REVOKE ALL ON FUNCTION {outbox_maintain}(interval) FROM PUBLIC;
SELECT {outbox_maintain}();

INSERT INTO {outbox_migrations} (version, name) VALUES (2, 'functions');
