
-- Writers of one key take turns even where the application does not make them. The place is given again behind the lock:
-- the one that came with the row was given before it, and would turn the two round.
CREATE FUNCTION {outbox_strict}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(('x' || substr(md5(TG_RELID || E'\x1f'
        || coalesce(NEW.event_key, NEW.aggregate_type || E'\x1f' || NEW.aggregate_id)), 1, 16))::bit(64)::bigint);
    NEW.seq := nextval('{outbox_seq}');
    RETURN NEW;
END $$;
CREATE TRIGGER {name outbox_strict} BEFORE INSERT ON {outbox}
    FOR EACH ROW EXECUTE FUNCTION {outbox_strict}();

