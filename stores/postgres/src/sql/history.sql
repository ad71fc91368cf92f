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
),
