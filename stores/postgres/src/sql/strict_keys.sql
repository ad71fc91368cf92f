
-- Writers of one key take turns even where the application does not make them. The place is given again behind the lock:
-- the one that came with the row was given before it, and would turn the two round.
-- There are 2,048 locks, numbered behind the shards, and keys share them: the lock table of a server is for all of its
-- databases, and a lock for each key would let one large transaction fill it.
CREATE FUNCTION {outbox_strict}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock((TG_RELID::bigint - 2147483648)::integer, 1024 + (('x' || left(md5(
        coalesce(NEW.event_key, NEW.aggregate_type || E'\x1f' || NEW.aggregate_id)), 8))::bit(32)::integer & 2047));
    NEW.seq := nextval('{outbox_seq}');
    RETURN NEW;
END $$;
CREATE TRIGGER {name outbox_strict} BEFORE INSERT ON {outbox}
    FOR EACH ROW EXECUTE FUNCTION {outbox_strict}();
