DROP VIEW {outbox_events};
DROP VIEW {outbox_parked_status};
DELETE FROM {outbox_migrations} WHERE version = 3;
