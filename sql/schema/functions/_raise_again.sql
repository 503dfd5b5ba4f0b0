CREATE FUNCTION once._raise_again(p_scope text)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'scope % changed its epoch again and again while a call was routed', p_scope
        USING ERRCODE = 'ON008',
              DETAIL = 'Each time the functions of the epoch that was current were over when they were called.',
              HINT = 'Retry the transaction. If it persists, see what rotates the scope so often: SELECT * FROM once.generations.';
END
$$;

COMMENT ON FUNCTION once._raise_again(text) IS 'raises ON008: a call could not be routed';
