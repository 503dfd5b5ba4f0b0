-- Takes a key's lock that another transaction holds: waits for p_wait (NULL: as long as it takes, zero or less: not at
-- all) and never longer than the caller's lock_timeout. False: not taken.
CREATE FUNCTION once._wait_for_lock(p_lock bigint, p_wait interval)
RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_before text := current_setting('lock_timeout');
    v_timeout bigint;
BEGIN
    IF p_wait <= interval '0' THEN
        RETURN false;
    END IF;
    IF p_wait IS NOT NULL THEN
        v_timeout := least(greatest(ceil(extract(epoch FROM p_wait) * 1000), 1), 2147483647);
        IF v_before <> '0' AND extract(epoch FROM v_before::interval) * 1000 < v_timeout THEN
            v_timeout := NULL;
        END IF;
    END IF;
    -- The block is a subtransaction, so that running into the timeout leaves the caller's transaction usable.
    BEGIN
        IF v_timeout IS NOT NULL THEN
            PERFORM set_config('lock_timeout', v_timeout::text, true);
        END IF;
        PERFORM pg_advisory_xact_lock(p_lock);
        IF v_timeout IS NOT NULL THEN
            PERFORM set_config('lock_timeout', v_before, true);
        END IF;
    EXCEPTION WHEN lock_not_available THEN
        RETURN false;
    END;
    RETURN true;
END
$$;

COMMENT ON FUNCTION once._wait_for_lock(bigint, interval) IS 'waits for a key''s lock within the caller''s bounds; false if not taken';
