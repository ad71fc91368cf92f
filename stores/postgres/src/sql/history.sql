history AS (
    INSERT INTO {outbox_sent} (seq, event_id, {carried}, destination, receipt, outcome, attempts, failures, error_kind,
        error_text, last_failed_at, published_at)
    SELECT d.seq, d.event_id, {carried d}, d.destination, d.receipt, 'published', 0, 0, NULL::text, NULL::text, NULL::timestamptz, now()
    FROM d WHERE d.destination IS NOT NULL
    UNION ALL
    SELECT d.seq, d.event_id, {carried d}, m.destination, m.receipt, 'published', 0, 0, NULL::text, NULL::text, NULL::timestamptz, now()
    FROM d CROSS JOIN LATERAL json_to_recordset(d.more::json) m(destination text, receipt text) WHERE d.more IS NOT NULL
    UNION ALL
    SELECT p.seq, p.event_id, {carried p}, nullif(p.destination, ''), p.receipt, 'published', p.attempts, p.failures,
        p.error_kind, p.error_text, p.last_failed_at, now()
    FROM p WHERE p.outcome = 'sent'
    UNION ALL
    -- As it was read, which is before the first edit since. Where that was not kept (somebody has removed it by hand) it is as it
    -- is by now: what was published is on record in any case.
    SELECT u.seq, u.event_id, u.event_type, u.aggregate_type, u.aggregate_id, u.event_key,
        CASE WHEN g.is_kept THEN g.payload ELSE u.payload END,
        CASE WHEN g.is_kept THEN g.payload_bytes ELSE u.payload_bytes END,
        CASE WHEN g.is_kept THEN g.content_type ELSE u.content_type END, u.headers, u.priority, u.available_at, u.created_at, u.replay_id, u.enqueued_at,
        nullif(u.destination, ''), u.receipt, 'published', u.attempts, u.failures, u.error_kind, u.error_text,
        u.last_failed_at, now()
    FROM u LEFT JOIN LATERAL (
        SELECT true AS is_kept, o.payload, o.payload_bytes, o.content_type FROM {outbox_original} o
        WHERE o.seq = u.seq AND o.destination = u.destination AND o.version > u.sent_as
        ORDER BY o.seq, o.destination, o.version LIMIT 1) g ON true
    WHERE u.outcome = 'sent'
),
