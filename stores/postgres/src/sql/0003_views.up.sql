-- Parked rows with the word that people see. The word follows from the row and from what stands before it; it is stored
-- nowhere, so nothing can leave a stale one behind. A smaller severity is worse.
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
                   WHERE b.line = p.line AND b.lane = p.lane AND b.destination IN (p.destination, '') AND b.seq < p.seq
               ) THEN 'WAITING'
               WHEN p.next_attempt_at > clock_timestamp() THEN 'SCHEDULED'
               ELSE 'HELD'
           END AS status
    FROM {outbox_parked} p
) worded;

-- Every event once, in its worst state, for people and monitoring. What an operator threw away is neither
-- published nor to be published: `published` is null.
CREATE VIEW {outbox_events} AS
SELECT o.seq, o.event_id, o.event_type, o.aggregate_type, o.aggregate_id, o.event_key, o.payload, o.payload_bytes,
       o.content_type, o.headers, coalesce(o.priority, 0) AS priority, o.available_at,
       'PENDING'::text AS status, false AS published, NULL::text AS destination,
       0::bigint AS retry_count, 10 AS max_retry, NULL::timestamptz AS last_retry_at,
       NULL::timestamptz AS next_attempt_at,
       coalesce(o.created_at, o.enqueued_at) AS created_at, NULL::timestamptz AS updated_at,
       NULL::timestamptz AS published_at,
       NULL::text AS error_kind, NULL::text AS last_error, NULL::text AS error_message
FROM {outbox} o
UNION ALL
SELECT p.seq, p.event_id, p.event_type, p.aggregate_type, p.aggregate_id, p.event_key, p.payload, p.payload_bytes,
       p.content_type, p.headers, coalesce(p.priority, 0), p.available_at,
       p.status, false, nullif(p.destination, ''),
       p.failures, 10, p.last_failed_at, CASE WHEN NOT p.dead THEN p.next_attempt_at END,
       coalesce(p.created_at, p.enqueued_at), p.updated_at, NULL,
       p.error_kind, p.error_text, p.error_text
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
       CASE s.outcome WHEN 'published' THEN s.error_text ELSE s.reason END
FROM {outbox_sent} s
WHERE s.outcome IN ('published', 'discarded')
  AND NOT EXISTS (
      SELECT 1 FROM {outbox_sent} l
      WHERE l.event_id = s.event_id AND l.seq = s.seq AND l.outcome IN ('published', 'discarded')
        AND (l.outcome = 'discarded', l.published_at, coalesce(l.destination, ''), l.ctid)
          > (s.outcome = 'discarded', s.published_at, coalesce(s.destination, ''), s.ctid)
  )
  AND NOT EXISTS (SELECT 1 FROM {outbox_parked} p WHERE p.seq = s.seq);

INSERT INTO {outbox_migrations} (version, name) VALUES (3, 'views');
