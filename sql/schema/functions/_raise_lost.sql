-- Above READ COMMITTED a row that is not found may only be invisible (it was carried over): retry, do not say lost.
CREATE FUNCTION once._raise_lost(p_key text, p_attempt integer)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'could not serialize access to the claim of key "%"', p_key
            USING ERRCODE = '40001', HINT = 'The transaction might succeed if retried.';
    END IF;
    RAISE EXCEPTION 'attempt % at key "%" is not the current claim', p_attempt, p_key
        USING ERRCODE = 'ON007',
              DETAIL = 'It was settled, released, taken over, rolled back, or never made.',
              HINT = 'Change nothing on its behalf; look at the key with once.lookup.';
END
$$;

COMMENT ON FUNCTION once._raise_lost(text, integer) IS 'raises ON007: the claim is not the current one';
