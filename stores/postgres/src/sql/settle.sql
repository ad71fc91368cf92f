-- One autocommitted statement: fenced, and named by primary key. Nothing in it is a join whose order the planner chooses:
-- a list of one, and a span of one that is sorted, are conditions of an index and nothing else, a shard behind a sum is no
-- condition of any, and what became of parked rows is looked up in an object. A plan that was made for an empty table would
-- otherwise scan a full one.
-- {entry} is what became of the parked row `o`, `edited` whether its payload is another by now, `taken` whether another event
-- stands where it is to go, {park} what is written of a row that is parked; they are in write.rs. Columns are named, because
-- tables may have more of them than these.
WITH
f AS MATERIALIZED (
    SELECT s.shard FROM unnest($1::smallint[], $2::bigint[]) x(shard, token)
    JOIN {outbox_shard} s ON s.shard = x.shard AND s.token = x.token
    ORDER BY s.shard FOR SHARE OF s
),
d AS (
    DELETE FROM {outbox} o
    USING unnest($3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[])
        WITH ORDINALITY x(place, id, order_key, outcome, destination, receipt, more, parks, n)
    WHERE o.seq = ANY (ARRAY[x.place]) AND {id o} = x.id AND (o.shard + 0) = ANY (ARRAY(SELECT f.shard FROM f))
      -- Another event is parked at this place only after the sequence was reset by hand. The row stays queued, where it can
      -- be seen: removing it would lose it.
      AND (x.parks IS NULL OR (
          SELECT true FROM {outbox_parked} b
          WHERE b.seq >= x.place AND b.seq <= x.place
            AND x.parks::jsonb @> jsonb_build_array(jsonb_build_object('destination', b.destination))
          ORDER BY b.seq LIMIT 1) IS NULL)
    RETURNING x.order_key, x.outcome, x.destination, x.receipt, x.more, x.parks, x.n, o.seq, o.shard, o.lane,
        {id o} AS event_id, {carried o}
),
p AS (
    DELETE FROM {outbox_parked} o
    WHERE o.seq = ANY ($11::bigint[]) AND o.shard = ANY (ARRAY(SELECT f.shard FROM f))
      AND (({entry} ->> 'outcome' IN ('sent', 'duplicate') AND NOT {edited})
           OR ({entry} ->> 'outcome' = 'split' AND {entry} ->> 'version' = o.version::text AND NOT {taken}))
    RETURNING o.seq, o.shard, o.lane, o.order_key, o.event_id, o.version, {carried o}, o.destination, o.attempts, o.failures,
        o.edited, o.error_kind, o.error_text, o.last_failed_at, {entry} ->> 'outcome' AS outcome,
        {entry} ->> 'receipt' AS receipt, {entry} -> 'beside' AS parks, ({entry} ->> 'n')::bigint AS n
),
u AS (
    UPDATE {outbox_parked} o SET (version, dead, next_attempt_at, attempts, failures, maybe_sent, redriven, updated_at,
        error_kind, error_text, error_group, first_failed_at, last_failed_at, sent_as) = (
        SELECT o.version + 1, k.dead, {next_attempt}, k.attempts, k.failures, k.maybe_sent,
            o.redriven AND NOT (k.dead AND k.kind IS NOT NULL), now(),
            coalesce(k.kind, o.error_kind), CASE WHEN k.kind IS NULL THEN o.error_text ELSE k.text END,
            CASE WHEN k.kind IS NULL THEN o.error_group ELSE k.alike END,
            CASE WHEN k.kind IS NULL THEN o.first_failed_at ELSE coalesce(o.first_failed_at, now()) END,
            CASE WHEN k.kind IS NULL THEN o.last_failed_at ELSE now() END,
            CASE WHEN {entry} ->> 'outcome' = 'sent' THEN ({entry} ->> 'version')::bigint ELSE o.sent_as END
        FROM jsonb_to_record(CASE WHEN {taken}
            THEN $13::jsonb || jsonb_build_object('attempts', o.attempts, 'failures', o.failures + 1, 'maybe_sent', o.maybe_sent)
            -- Sent with the payload that was read, it is sent with the new one as well.
            WHEN {entry} ->> 'outcome' = 'sent'
            THEN jsonb_build_object('dead', o.dead, 'wait', 0, 'attempts', o.attempts, 'failures', o.failures, 'maybe_sent', true)
            ELSE {entry} -> 'stays' END) k({park}))
    WHERE o.seq = ANY ($11::bigint[]) AND o.shard = ANY (ARRAY(SELECT f.shard FROM f))
      -- What stayed for an edit tells by `sent_as` alone that the settle was written before.
      AND (({entry} ->> 'outcome' = 'sent' AND {edited} AND coalesce(o.sent_as, -1) < ({entry} ->> 'version')::bigint)
           OR ({entry} ->> 'version' = o.version::text
               AND ({entry} ->> 'outcome' = 'again' OR ({entry} ->> 'outcome' = 'split' AND {taken}))))
    RETURNING o.seq, o.shard, o.event_id, {carried o}, o.destination, o.attempts, o.failures, o.error_kind, o.error_text,
        o.last_failed_at, {entry} ->> 'outcome' AS outcome, {entry} ->> 'receipt' AS receipt,
        ({entry} ->> 'version')::bigint AS sent_as,
        ({entry} ->> 'n')::bigint AS n
),
parked AS (
    INSERT INTO {outbox_parked} AS t (seq, shard, lane, order_key, line, event_id, version, edited, {carried}, destination, dead,
        next_attempt_at, attempts, failures, maybe_sent, error_kind, error_text, error_group, first_failed_at, last_failed_at, updated_at)
    SELECT r.seq, r.shard, r.lane, r.order_key, md5(r.order_key)::uuid, r.event_id, r.version,
        CASE WHEN r.edited IS NOT NULL THEN r.version END, {carried r}, k.destination, k.dead,
        {next_attempt}, k.attempts, k.failures, k.maybe_sent, k.kind,
        CASE WHEN k.kind IS NULL THEN r.failed_as ELSE k.text END, k.alike, CASE WHEN k.kind IS NOT NULL THEN now() END,
        CASE WHEN k.kind IS NULL THEN r.last_failed_at ELSE now() END, now()
    FROM (
        SELECT d.seq, d.shard, d.lane, d.order_key, d.event_id, 1::bigint AS version, NULL::bigint AS edited, {carried d}, d.parks::jsonb,
            NULL::text AS failed_as, NULL::timestamptz AS last_failed_at
        FROM d WHERE d.parks IS NOT NULL
        UNION ALL
        -- How it had failed stays for people to read: without a kind, because one that has a kind is being refused, and
        -- without the time of the first failure, because it has not failed there.
        SELECT p.seq, p.shard, p.lane, p.order_key, p.event_id, p.version + 1, p.edited, {carried p}, p.parks,
            CASE WHEN p.error_kind IS NULL THEN p.error_text ELSE p.error_kind || ': ' || p.error_text END, p.last_failed_at
        FROM p WHERE p.outcome = 'split' AND p.parks IS NOT NULL
    ) r
    CROSS JOIN LATERAL jsonb_to_recordset(r.parks) k(destination text, {park})
    -- What is there is this very event, and stays as it is. Where another comes in between, the null fails the settle, which is
    -- repeated. Looking it up instead would be quadratic under a plan that was made for an empty table.
    -- What a person has changed goes along, as if it had been changed there, unless somebody has changed that.
    ON CONFLICT (seq, destination) DO UPDATE SET event_id = CASE
        WHEN (t.event_id, t.enqueued_at) IS NOT DISTINCT FROM (excluded.event_id, excluded.enqueued_at) THEN t.event_id END,
        payload = CASE WHEN excluded.edited IS NOT NULL AND t.edited IS NULL THEN excluded.payload ELSE t.payload END,
        payload_bytes = CASE WHEN excluded.edited IS NOT NULL AND t.edited IS NULL THEN excluded.payload_bytes ELSE t.payload_bytes END,
        content_type = CASE WHEN excluded.edited IS NOT NULL AND t.edited IS NULL THEN excluded.content_type ELSE t.content_type END,
        version = t.version + (excluded.edited IS NOT NULL AND t.edited IS NULL)::integer,
        edited = CASE WHEN excluded.edited IS NOT NULL AND t.edited IS NULL THEN t.version + 1 ELSE t.edited END
    RETURNING t.seq, t.destination, t.version, t.edited
),
{anew}
{history}
counted AS (
    INSERT INTO {outbox_counter} AS c (slot, published, duplicates, dropped)
    SELECT (SELECT min(f.shard) FROM f), sum(n.published), sum(n.duplicates), sum(n.dropped)
    FROM (
        SELECT CASE WHEN d.outcome = 'decided' AND d.replay_id IS NULL THEN (d.destination IS NOT NULL)::integer
                    + CASE WHEN d.more IS NULL THEN 0 ELSE json_array_length(d.more::json) END ELSE 0 END AS published,
               (d.outcome = 'duplicate')::integer AS duplicates, (d.outcome = 'dropped')::integer AS dropped FROM d
        UNION ALL
        SELECT (p.outcome = 'sent' AND p.replay_id IS NULL)::integer, (p.outcome = 'duplicate')::integer,
               (p.outcome = 'split' AND p.parks IS NULL)::integer FROM p
        UNION ALL
        SELECT (u.outcome = 'sent' AND u.replay_id IS NULL)::integer, 0, 0 FROM u
    ) n
    HAVING sum(n.published) + sum(n.duplicates) + sum(n.dropped) > 0
    ON CONFLICT (slot) DO UPDATE SET published = c.published + excluded.published,
        duplicates = c.duplicates + excluded.duplicates, dropped = c.dropped + excluded.dropped
),
clean AS (
    UPDATE {outbox_shard} s SET unclean = 0, suspect = NULL
    WHERE (s.unclean <> 0 OR s.suspect IS NOT NULL)
      AND s.shard = ANY (ARRAY(SELECT d.shard FROM d UNION SELECT p.shard FROM p UNION SELECT u.shard FROM u))
)
SELECT ARRAY(SELECT f.shard FROM f), ARRAY(SELECT d.n FROM d), ARRAY(SELECT p.n FROM p UNION ALL SELECT u.n FROM u)
