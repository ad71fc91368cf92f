-- Where the event stood already and got what a person has changed, what was there is kept, as an edit does: a relay may be
-- sending it. The version is the one that was written, which an operator may have raised since the snapshot. Who and when
-- are those of the latest edit of its place.
kept AS (
    INSERT INTO {outbox_original} AS x (seq, destination, version, payload, payload_bytes, content_type, actor, edited_at)
    SELECT k.seq, k.destination, k.version, b.payload, b.payload_bytes, b.content_type, e.actor, e.edited_at
    FROM parked k
    CROSS JOIN LATERAL (
        SELECT t.payload, t.payload_bytes, t.content_type FROM {outbox_parked} t
        WHERE t.seq = ANY (ARRAY[k.seq]) AND t.destination = k.destination AND t.edited IS NULL) b
    CROSS JOIN LATERAL (
        SELECT o.actor, o.edited_at FROM {outbox_original} o WHERE o.seq = ANY (ARRAY[k.seq])
        ORDER BY o.edited_at DESC LIMIT 1) e
    WHERE k.edited = k.version
    -- What an operator has kept since this settle began is what was there before the last of the edits, which may be the second.
    ON CONFLICT (seq, destination, version) DO UPDATE SET payload = excluded.payload,
        payload_bytes = excluded.payload_bytes, content_type = excluded.content_type
    WHERE x.edited_at < now()
),
-- Whoever had the first of a key routed anew means those that wait behind it: each leads the next one, because all of them
-- at once may be many. None of this settle is changed twice.
led AS (
    UPDATE {outbox_parked} o SET redriven = true, version = o.version + 1, updated_at = now()
    FROM p CROSS JOIN LATERAL (
        SELECT n.seq FROM {outbox_parked} n
        WHERE NOT n.dead AND {in_line n}
          AND (n.shard, n.destination, n.line, n.lane, n.seq) > (p.shard, p.destination, md5(p.order_key)::uuid, p.lane, p.seq)
          AND (n.shard, n.destination, n.line, n.lane) <= (p.shard, p.destination, md5(p.order_key)::uuid, p.lane)
        ORDER BY n.shard, n.destination, n.line, n.lane, n.seq LIMIT 1
    ) n
    WHERE p.outcome = 'split' AND p.destination <> '' AND o.seq = ANY (ARRAY[n.seq]) AND o.destination = p.destination
      AND {entry} IS NULL
),
