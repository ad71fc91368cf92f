-- The short way of a read, for when all floors are near the end: one look at the few rows above the lowest of them. It
-- answers like read.sql (kinds 0 and 1), or with the single row of kind 6 when it cannot: rows are left that it has not seen
-- or may not bring, one is too large, one may stand behind a parked row or may have been published before, or parked rows
-- move. The statement is short because the executor prepares every part of a plan for every run, and this one runs often.
WITH near AS MATERIALIZED (
    SELECT {columns o}, {size o} AS size, array_position($1::integer[], o.shard * 4 + o.lane) AS range
    FROM {outbox} o
    WHERE o.seq > (SELECT min(f.floor) FROM unnest($2::bigint[]) f(floor)) AND o.seq NOT IN (SELECT unnest($4::bigint[]))
    ORDER BY o.seq LIMIT {near}
),
found AS MATERIALIZED (SELECT n.* FROM near n WHERE n.range IS NOT NULL AND n.seq > ($2::bigint[])[n.range]),
simple AS MATERIALIZED (
    -- Asked twice, because most often there is none of any shard.
    SELECT NOT (EXISTS (SELECT 1 FROM {outbox_parked} WHERE NOT dead AND {in_line})
           AND EXISTS (SELECT 1 FROM {outbox_parked} WHERE NOT dead AND {in_line} AND shard = ANY ($6::smallint[])))
       AND NOT (EXISTS (SELECT 1 FROM {outbox_parked} WHERE NOT dead AND {alone})
           AND EXISTS (SELECT 1 FROM {outbox_parked} WHERE NOT dead AND {alone} AND shard = ANY ($6::smallint[])))
       AND (SELECT count(*) < {near} AND coalesce(sum(n.size), 0) <= $5::bigint AND coalesce(max(n.size), 0) <= {most} FROM near n)
       AND NOT EXISTS (SELECT 1 FROM found f GROUP BY f.range HAVING count(*) > ($3::bigint[])[f.range])
       AND NOT EXISTS (
           SELECT 1 FROM found o
           -- Not EXISTS, which may be answered by hashing all that is parked.
           WHERE (SELECT true FROM {outbox_parked} b WHERE b.line = {line o} AND b.lane = o.lane LIMIT 1) OR {known o}
       ) AS yes
)
-- Kind 0.
SELECT 0 AS kind, {no_columns}, {head}, NULL::timestamptz AS next_due_at, 0::bigint AS visited, true AS all_due,
       pg_relation_filenode('{outbox}'::regclass)::bigint AS file,
       pg_relation_size('{outbox_parked}'::regclass) / 8192 AS pages
WHERE (SELECT s.yes FROM simple s)
UNION ALL
-- Kind 1.
SELECT 1, {columns o}, NULL, NULL, {no_parked}, o.range, NULL, {no_head}
FROM found o
WHERE (SELECT s.yes FROM simple s)
UNION ALL
-- Kind 6.
SELECT 6, {only }, {no_head}
WHERE NOT (SELECT s.yes FROM simple s)
