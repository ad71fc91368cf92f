-- The read of the relays that know version 3 of the tables, which run on version 4 too. Only a test asks it.
WITH RECURSIVE
lines AS (
    (SELECT n.* FROM unnest($7::smallint[], $8::text[], $9::text[]::uuid[], $10::smallint[]) s(shard, destination, line, lane)
     CROSS JOIN LATERAL (
         SELECT p.shard, p.destination, p.line, p.lane, p.seq, p.next_attempt_at, p.destination = ANY ($13::text[]) AS closed
         FROM {outbox_parked} p
         WHERE NOT p.dead AND (p.shard, p.destination, p.line, p.lane) > (s.shard, s.destination, s.line, s.lane)
           AND p.shard <= s.shard
         ORDER BY p.shard, p.destination, p.line, p.lane, p.seq LIMIT 1
     ) n
     WHERE (SELECT EXISTS (SELECT 1 FROM {outbox_parked})))
    UNION ALL
    SELECT n.* FROM lines l CROSS JOIN LATERAL (
        (SELECT p.shard, p.destination, p.line, p.lane, p.seq, p.next_attempt_at, p.destination = ANY ($13::text[])
         FROM {outbox_parked} p
         WHERE NOT l.closed AND NOT p.dead
           AND (p.shard, p.destination, p.line, p.lane) > (l.shard, l.destination, l.line, l.lane) AND p.shard <= l.shard
         ORDER BY p.shard, p.destination, p.line, p.lane, p.seq LIMIT 1)
        UNION ALL
        (SELECT p.shard, p.destination, p.line, p.lane, p.seq, p.next_attempt_at, p.destination = ANY ($13::text[])
         FROM {outbox_parked} p
         WHERE l.closed AND NOT p.dead AND (p.shard, p.destination) > (l.shard, l.destination) AND p.shard <= l.shard
         ORDER BY p.shard, p.destination, p.line, p.lane, p.seq LIMIT 1)
    ) n
),
visited AS MATERIALIZED (SELECT row_number() OVER () AS n, v.* FROM (SELECT * FROM lines LIMIT $11::bigint) v),
heads AS MATERIALIZED (
    SELECT v.* FROM visited v
    WHERE NOT v.closed
      AND (v.destination, v.line, v.lane) NOT IN (
          SELECT p.* FROM unnest($14::bigint[], $15::text[]) b(seq, destination)
          CROSS JOIN LATERAL (SELECT p.destination, p.line, p.lane FROM {outbox_parked} p
                              WHERE p.seq = b.seq AND p.destination = b.destination LIMIT 1) p)
      -- Not EXISTS, which may be answered by hashing all that is parked; and not by place, which may be looked up in the
      -- primary key, from the first row of all.
      AND (v.destination = ANY ($6::text[]) OR (
          SELECT true FROM {outbox_parked} h
          WHERE h.line = v.line AND h.lane = v.lane AND h.destination = v.destination AND h.dead AND h.seq + 0 < v.seq
          LIMIT 1) IS NULL)
      AND (v.destination = '' OR (
          SELECT true FROM {outbox_parked} h
          WHERE h.line = v.line AND h.lane = v.lane AND h.destination = '' AND h.seq + 0 < v.seq
          LIMIT 1) IS NULL)
),
-- One row of a key in a lateral query: a join may be made the other way round, through all that is parked.
due AS MATERIALIZED (SELECT * FROM heads h WHERE h.next_attempt_at <= now() ORDER BY h.seq LIMIT $12::bigint),
wanted AS MATERIALIZED (
    SELECT w.*, row_number() OVER o AS n, sum(w.size) OVER o AS total
    FROM (
        SELECT h.seq AS head, h.destination, p.seq, p.size
        FROM due h CROSS JOIN LATERAL (SELECT p.seq, {size p} AS size FROM {outbox_parked} p
                                       WHERE p.seq = h.seq AND p.destination = h.destination LIMIT 1) p
        UNION ALL
        SELECT h.seq, h.destination, f.seq, f.size
        FROM due h CROSS JOIN LATERAL (
            SELECT p.seq, {size p} AS size,
                   bool_and(p.next_attempt_at <= now()) OVER (ORDER BY p.shard, p.destination, p.line, p.lane, p.seq) AS goes
            FROM {outbox_parked} p
            WHERE NOT p.dead AND (p.shard, p.destination, p.line, p.lane, p.seq) > (h.shard, h.destination, h.line, h.lane, h.seq)
              AND (p.shard, p.destination, p.line, p.lane) <= (h.shard, h.destination, h.line, h.lane)
              AND p.seq < least(
                  (SELECT min(b.seq) FROM {outbox_parked} b
                   WHERE b.line = h.line AND b.lane = h.lane AND b.destination = h.destination AND b.dead AND b.seq + 0 > h.seq
                     AND h.destination <> ALL ($6::text[])),
                  (SELECT min(b.seq) FROM {outbox_parked} b
                   WHERE b.line = h.line AND b.lane = h.lane AND b.destination = '' AND b.seq + 0 > h.seq
                     AND h.destination <> ''),
                  9223372036854775807)
            ORDER BY p.shard, p.destination, p.line, p.lane, p.seq LIMIT $16::bigint
        ) f WHERE f.goes
    ) w
    WINDOW o AS (ORDER BY w.head, w.destination, w.seq ROWS UNBOUNDED PRECEDING)
),
taken AS MATERIALIZED (SELECT * FROM wanted w WHERE w.total <= $5::bigint OR w.n = 1),
found AS MATERIALIZED (
    SELECT s.range, q.*
    FROM unnest($1::integer[], $2::bigint[], $3::bigint[]) WITH ORDINALITY s(slot, floor, lim, range)
    CROSS JOIN LATERAL (
        SELECT {columns o}, {size o} AS size
        FROM {outbox} o
        -- A list of one, because behind a plain equality the order could be had from the primary key as well, by reading
        -- the rows of all shards.
        -- From the beginning means from the first row that is there: what was removed while somebody holds an old snapshot is
        -- passed once and not once a range.
        WHERE (o.shard * 4 + o.lane) = ANY (ARRAY[s.slot])
          AND o.seq > CASE WHEN s.floor > 0 THEN s.floor ELSE (SELECT min(b.seq) - 1 FROM {outbox} b) END
          AND o.seq NOT IN (SELECT unnest($4::bigint[]))
        ORDER BY o.shard * 4 + o.lane, o.seq LIMIT s.lim
    ) q
),
room AS MATERIALIZED (
    SELECT r.bytes, (SELECT coalesce(sum(f.size), 0) FROM found f) <= r.bytes AS is_enough
    FROM (SELECT $5::bigint - (SELECT coalesce(sum(t.size), 0) FROM taken t) AS bytes) r
),
-- Only made when there is not room for everything: the first rows of all ranges go before the second ones of any.
fitting AS MATERIALIZED (
    SELECT c.seq FROM (
        SELECT f.seq, sum(f.size) OVER o AS total, row_number() OVER o AS n
        FROM (SELECT f.seq, f.size, f.range, row_number() OVER (PARTITION BY f.range ORDER BY f.seq) AS rank FROM found f) f
        WINDOW o AS (ORDER BY f.rank, f.range ROWS UNBOUNDED PRECEDING)
    ) c WHERE c.total <= (SELECT r.bytes FROM room r) OR (c.n = 1 AND NOT EXISTS (SELECT 1 FROM taken))
)
-- Kind 0.
SELECT 0 AS kind, {no_columns}, {head},
       (SELECT min(h.next_attempt_at) FROM heads h WHERE h.next_attempt_at > now()) AS next_due_at,
       (SELECT count(*) FROM visited) AS visited,
       (SELECT count(*) FROM heads h WHERE h.next_attempt_at <= now()) <= $12::bigint
           AND (SELECT count(*) FROM wanted) = (SELECT count(*) FROM taken) AS all_due,
       pg_relation_filenode('{outbox}'::regclass)::bigint AS file
UNION ALL
-- Kind 4: range and seq.
SELECT 4, min(f.seq), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, f.range, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM found f WHERE NOT (SELECT r.is_enough FROM room r) AND f.seq NOT IN (SELECT c.seq FROM fitting c) GROUP BY f.range
UNION ALL
-- Kind 3: shard, lane, destination and line.
SELECT 3, NULL, v.shard, v.lane, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       NULL, NULL, v.destination, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, v.line::text, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM visited v
WHERE v.n IN (SELECT max(w.n) FROM visited w GROUP BY w.shard) AND (SELECT count(*) FROM visited) >= $11::bigint
UNION ALL
-- Kind 2.
SELECT 2, {cut p t}, NULL, {sent_before p}, p.destination, p.order_key, p.version, p.attempts, p.failures, p.maybe_sent,
       p.redriven, p.first_failed_at, p.last_failed_at, NULL, {too_large p t}, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM (SELECT * FROM taken ORDER BY n) t
CROSS JOIN LATERAL (SELECT p.* FROM {outbox_parked} p WHERE p.seq = t.seq AND p.destination = t.destination LIMIT 1) p
UNION ALL
-- Kind 1.
SELECT 1, {columns o},
       CASE WHEN (SELECT EXISTS (SELECT 1 FROM {outbox_parked})) AND (
           SELECT true FROM {outbox_parked} b WHERE b.line = {line o} AND b.lane = o.lane LIMIT 1
       ) THEN (
           WITH RECURSIVE names(name) AS (
               (SELECT b.destination FROM {outbox_parked} b WHERE b.line = {line o} AND b.lane = o.lane
                ORDER BY b.destination LIMIT 1)
               UNION ALL
               SELECT (SELECT b.destination FROM {outbox_parked} b
                       WHERE b.line = {line o} AND b.lane = o.lane AND b.destination > n.name ORDER BY b.destination LIMIT 1)
               FROM names n WHERE n.name IS NOT NULL
           )
           SELECT array_agg(n.name) FROM names n
           WHERE n.name IS NOT NULL AND (n.name = '' OR n.name <> ALL ($6::text[]) OR (
               SELECT true FROM {outbox_parked} b
               WHERE b.line = {line o} AND b.lane = o.lane AND b.destination = n.name AND NOT b.dead LIMIT 1))
       ) END,
       {sent_before o}, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, o.range, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM found o
WHERE o.size <= {most} AND ((SELECT r.is_enough FROM room r) OR o.seq IN (SELECT c.seq FROM fitting c))
UNION ALL
-- Kind 5: queued and too large to be an event, which is all that matters.
SELECT 5, {cut o}, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, o.range, {too_large o}, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM found o
WHERE o.size > {most} AND ((SELECT r.is_enough FROM room r) OR o.seq IN (SELECT c.seq FROM fitting c))
