-- The short way of a read, for when all floors are near the end: one look at the few rows above the lowest of them, as
-- they are. Whether they are simple enough to be an answer is judged by who asked: the executor prepares every part of
-- a plan for every run, this one runs often, and most of its runs bring a row or two. Each row has the head in front; a
-- head without a row says that there is none.
SELECT h.*, {short o}, o.size,
       -- Not EXISTS, which may be answered by hashing all that is parked.
       (SELECT true FROM {outbox_parked} b WHERE b.line = {line o} AND b.lane = o.lane LIMIT 1) AS blocked,
       {known o} AS known
FROM (
    SELECT {says}, pg_relation_filenode('{outbox}'::regclass)::bigint AS file,
           pg_relation_size('{outbox_parked}'::regclass) / 8192 AS pages,
           -- Asked twice, because most often there is none of any shard.
           (EXISTS (SELECT 1 FROM {outbox_parked} WHERE NOT dead AND {in_line})
               AND EXISTS (SELECT 1 FROM {outbox_parked} WHERE NOT dead AND {in_line} AND shard = ANY ($4::smallint[])))
           OR (EXISTS (SELECT 1 FROM {outbox_parked} WHERE NOT dead AND {alone})
               AND EXISTS (SELECT 1 FROM {outbox_parked} WHERE NOT dead AND {alone} AND shard = ANY ($4::smallint[])))
           AS moves
) h
LEFT JOIN LATERAL (
    SELECT {columns o}, {size o} AS size FROM {outbox} o
    WHERE o.seq > $1::bigint AND o.seq NOT IN (SELECT unnest($2::bigint[])) AND o.shard = ANY ($3::smallint[])
    ORDER BY o.seq LIMIT {rows}
) o ON true
