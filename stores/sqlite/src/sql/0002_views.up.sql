-- Parked rows with the word that people see. The word follows from the row and from what stands before it; it is stored
-- nowhere, so nothing can leave a stale one behind. A smaller severity is worse.
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
) worded;

-- Every event once, in its worst state, for people and monitoring. Times are UTC in the form of datetime('now'), so that
-- they compare with it. What an operator threw away is neither published nor to be published: `published` is null.
CREATE VIEW {outbox_events} AS
SELECT o.seq,
       coalesce(o.event_id, (SELECT outbox_id FROM {outbox_meta}) || '-' || o.seq) AS event_id,
       o.event_type, o.aggregate_type, o.aggregate_id, o.event_key, o.payload, o.payload_bytes, o.content_type,
       o.headers, coalesce(o.priority, 0) AS priority, o.available_at,
       'PENDING' AS status, 0 AS published, NULL AS destination,
       0 AS retry_count, 10 AS max_retry, NULL AS last_retry_at, NULL AS next_attempt_at,
       {created o} AS created_at, NULL AS updated_at, NULL AS published_at,
       NULL AS error_kind, NULL AS last_error, NULL AS error_message
FROM {outbox} o
UNION ALL
SELECT p.seq,
       coalesce(p.event_id, (SELECT outbox_id FROM {outbox_meta}) || '-' || p.seq),
       p.event_type, p.aggregate_type, p.aggregate_id, p.event_key, p.payload, p.payload_bytes, p.content_type,
       p.headers, coalesce(p.priority, 0), p.available_at,
       p.status, 0, nullif(p.destination, ''),
       p.failures, 10, {iso p.last_failed_at}, CASE WHEN p.dead = 0 THEN {iso p.next_attempt_at} END,
       {created p}, {iso p.updated_at}, NULL,
       p.error_kind, p.error_text, p.error_text
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
       CASE s.outcome WHEN 'published' THEN s.error_text ELSE s.reason END
FROM {outbox_sent} s
WHERE s.id = (
    SELECT l.id FROM {outbox_sent} l
    WHERE l.seq = s.seq AND l.outcome IN ('published', 'discarded')
    ORDER BY l.outcome = 'published', l.id DESC LIMIT 1
)
  AND NOT EXISTS (SELECT 1 FROM {outbox_parked} p WHERE p.seq = s.seq);

INSERT INTO {outbox_migrations} (version, name, applied_at) VALUES (2, 'views', {now});
