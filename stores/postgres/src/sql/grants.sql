GRANT SELECT ON {outbox_migrations}, {outbox_seq}, {outbox_events}, {outbox_parked_status} TO {role};
GRANT USAGE ON SEQUENCE {outbox_seq}, {outbox_marker} TO {role};
GRANT SELECT, INSERT, DELETE ON {outbox}, {outbox_sent} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON {outbox_parked}, {outbox_relay}, {outbox_control}, {outbox_job}, {outbox_duty},
    {outbox_original}, {outbox_restored} TO {role};
GRANT SELECT, INSERT, UPDATE ON {outbox_counter} TO {role};
GRANT SELECT, UPDATE ON {outbox_shard} TO {role};
GRANT SELECT, INSERT ON {outbox_audit} TO {role};
GRANT EXECUTE ON FUNCTION {outbox_maintain}(interval), {outbox_forget_audit}(interval, integer), {outbox_heartbeat},
    {outbox_make_id}(), {outbox_send} TO {role};
