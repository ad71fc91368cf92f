DROP VIEW {outbox_parked_status};
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
DROP INDEX {outbox_parked_time};
DROP INDEX {outbox_parked_heads};
DELETE FROM {outbox_parked} WHERE seq < 0;
DROP INDEX {outbox_parked_replay};
DROP INDEX {outbox_parked_type};
DROP INDEX {outbox_parked_key};
DROP INDEX {outbox_parked_group};
DROP INDEX {outbox_parked_error};
DROP INDEX {outbox_parked_dead};
DROP TABLE {outbox_restored};
DROP TABLE {outbox_original};
DROP TABLE {outbox_duty};
DROP TABLE {outbox_job};
ALTER TABLE {outbox_control} DROP COLUMN changed_at;
ALTER TABLE {outbox_control} DROP COLUMN actor;
DROP INDEX {outbox_audit_time};
DROP INDEX {outbox_audit_event};
ALTER TABLE {outbox_audit} DROP COLUMN event_id;
ALTER TABLE {outbox_audit} DROP COLUMN job_id;
ALTER TABLE {outbox_parked} DROP COLUMN error_group;
DELETE FROM {outbox_migrations} WHERE version = 3;
