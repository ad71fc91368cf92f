-- backlog: what is not published, and how much of that waits for a person
SELECT count(*) AS unpublished, count(*) FILTER (WHERE status = 'DEAD_LETTER') AS dead
FROM outbox_events WHERE NOT published AND replay_id IS NULL;

-- dead_letters: what needs a person, the oldest first
SELECT event_id, event_type, aggregate_type, aggregate_id, retry_count, error_kind, error_message, created_at
FROM outbox_events WHERE status = 'DEAD_LETTER' ORDER BY created_at, seq;

-- retries: how often published events were refused before
SELECT avg(retry_count) AS average, max(retry_count) AS most, count(*) AS events
FROM outbox_events WHERE status = 'PUBLISHED' AND replay_id IS NULL;

-- latency: seconds from creation to publication, by type
SELECT event_type, avg(extract(epoch FROM published_at - created_at)) AS seconds
FROM outbox_events WHERE published AND replay_id IS NULL GROUP BY event_type ORDER BY event_type;

-- last_hour: how the events of the last hour are doing
SELECT count(*) FILTER (WHERE NOT published) AS unpublished,
       count(*) FILTER (WHERE retry_count > 0) AS with_retries,
       count(*) FILTER (WHERE retry_count >= 5) AS with_many_retries,
       avg(extract(epoch FROM published_at - created_at)) FILTER (WHERE published) AS seconds,
       max(retry_count) AS most_retries
FROM outbox_events WHERE created_at > now() - interval '1 hour' AND replay_id IS NULL;

-- recent: the newest events of one kind of aggregate
SELECT event_id, event_type, aggregate_id, status, created_at, published_at
FROM outbox_events WHERE aggregate_type = 'ORDER' AND replay_id IS NULL ORDER BY created_at DESC, seq DESC LIMIT 20;
