-- One autocommitted statement: fenced, named by primary key, every list carried through the DELETE so that nothing is
-- joined again. Statistics cannot turn it.
WITH
f AS MATERIALIZED (
    SELECT s.shard FROM unnest($1::smallint[], $2::bigint[]) x(shard, token)
    JOIN {outbox_shard} s ON s.shard = x.shard AND s.token = x.token
    ORDER BY s.shard FOR SHARE OF s
),
d AS (
    DELETE FROM {outbox} o
    USING unnest($3::bigint[], $4::text[], $5::text[], $6::smallint[], $7::text[], $8::text[], $9::text[], $10::text[])
        WITH ORDINALITY x(seq, id, order_key, outcome, destination, receipt, more, parks, n)
    WHERE o.seq = x.seq AND (o.event_id || '') = x.id AND o.shard = ANY (ARRAY(SELECT f.shard FROM f))
    RETURNING o.*, x.order_key, x.outcome, x.destination, x.receipt, x.more, x.parks, x.n
),
p AS (
    DELETE FROM {outbox_parked} o
    USING unnest($11::bigint[], $12::text[], $13::bigint[], $14::smallint[], $15::text[], $16::text[])
        WITH ORDINALITY y(seq, destination, version, what, receipt, parks, n)
    WHERE o.seq = y.seq AND o.destination = y.destination AND o.shard = ANY (ARRAY(SELECT f.shard FROM f))
      AND (y.what IN (0, 1) OR (y.what = 3 AND o.version = y.version))
    RETURNING o.*, y.what, y.receipt, y.parks, y.n
),
u AS (
    UPDATE {outbox_parked} o SET
        version = o.version + 1, dead = k.dead, next_attempt_at = now() + k.wait * interval '1 microsecond',
        attempts = k.attempts, failures = k.failures, maybe_sent = k.maybe_sent, redriven = false, updated_at = now(),
        error_kind = coalesce(k.kind, o.error_kind),
        error_text = CASE WHEN k.kind IS NULL THEN o.error_text ELSE k.text END,
        first_failed_at = CASE WHEN k.kind IS NULL THEN o.first_failed_at ELSE coalesce(o.first_failed_at, now()) END,
        last_failed_at = CASE WHEN k.kind IS NULL THEN o.last_failed_at ELSE now() END
    FROM unnest($11::bigint[], $12::text[], $13::bigint[], $14::smallint[], $16::text[], $17::text[])
        WITH ORDINALITY y(seq, destination, version, what, parks, park, n)
    CROSS JOIN LATERAL json_to_record(y.park::json)
        k(dead boolean, wait bigint, attempts bigint, failures bigint, maybe_sent boolean, kind text, text text)
    WHERE y.what = 2 AND o.seq = y.seq AND o.destination = y.destination AND o.version = y.version
      AND o.shard = ANY (ARRAY(SELECT f.shard FROM f))
    RETURNING o.*, y.parks, y.n
),
parked AS (
    INSERT INTO {outbox_parked} (seq, shard, lane, order_key, line, event_id, version, {carried}, destination, dead,
        next_attempt_at, attempts, failures, maybe_sent, error_kind, error_text, first_failed_at, last_failed_at, updated_at)
    SELECT r.seq, r.shard, r.lane, r.order_key, md5(r.order_key)::uuid, r.event_id, r.version, {carried r}, k.destination, k.dead,
        now() + k.wait * interval '1 microsecond', k.attempts, k.failures, k.maybe_sent, k.kind, k.text,
        CASE WHEN k.kind IS NOT NULL THEN now() END,
        CASE WHEN k.kind IS NOT NULL THEN now() END, now()
    FROM (
        SELECT d.seq, d.shard, d.lane, d.order_key, d.event_id, 1::bigint AS version, {carried d}, d.parks
        FROM d WHERE d.parks IS NOT NULL
        UNION ALL
        SELECT p.seq, p.shard, p.lane, p.order_key, p.event_id, p.version + 1, {carried p}, p.parks
        FROM p WHERE p.what = 3 AND p.parks IS NOT NULL
        UNION ALL
        SELECT u.seq, u.shard, u.lane, u.order_key, u.event_id, u.version, {carried u}, u.parks
        FROM u WHERE u.parks IS NOT NULL
    ) r
    CROSS JOIN LATERAL json_to_recordset(r.parks::json) k(destination text, dead boolean, wait bigint, attempts bigint,
        failures bigint, maybe_sent boolean, kind text, text text)
    ON CONFLICT (seq, destination) DO NOTHING
),
{history}
counted AS (
    INSERT INTO {outbox_counter} AS c (slot, published, duplicates, dropped)
    SELECT (SELECT min(f.shard) FROM f), sum(n.published), sum(n.duplicates), sum(n.dropped)
    FROM (
        SELECT CASE WHEN d.outcome = 0 THEN (d.destination IS NOT NULL)::integer
                    + CASE WHEN d.more IS NULL THEN 0 ELSE json_array_length(d.more::json) END ELSE 0 END AS published,
               (d.outcome = 1)::integer AS duplicates, (d.outcome = 2)::integer AS dropped FROM d
        UNION ALL
        SELECT (p.what = 0)::integer, (p.what = 1)::integer, (p.what = 3 AND p.parks IS NULL)::integer FROM p
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
