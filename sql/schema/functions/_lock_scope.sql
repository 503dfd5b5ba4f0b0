-- Locks a scope's row and returns it. Raises ON001.
CREATE FUNCTION once._lock_scope(p_name text)
RETURNS once.scope
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
    v_scope once.scope;
BEGIN
    SELECT * INTO v_scope FROM once.scope AS s WHERE s.name = p_name FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'unknown scope: %', coalesce(quote_literal(left(p_name, 64)), 'NULL')
            USING ERRCODE = 'ON001',
                  DETAIL = 'There is no scope of this name.',
                  HINT = 'See the scopes there are: SELECT * FROM once.scopes.';
    END IF;
    RETURN v_scope;
END
$$;

COMMENT ON FUNCTION once._lock_scope(text) IS 'locks a scope''s row and returns it';
