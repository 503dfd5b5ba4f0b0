-- The scopes to maintain, p_scope or all. Raises ON001.
CREATE FUNCTION once._scope_names(p_scope text)
RETURNS text[]
LANGUAGE plpgsql STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_scope IS NOT NULL AND NOT EXISTS (SELECT FROM once.scope AS s WHERE s.name = p_scope) THEN
        RAISE EXCEPTION 'unknown scope: %', quote_literal(left(p_scope, 64))
            USING ERRCODE = 'ON001',
                  DETAIL = 'There is no scope of this name.',
                  HINT = 'See the scopes there are: SELECT * FROM once.scopes.';
    END IF;
    RETURN ARRAY(SELECT s.name FROM once.scope AS s WHERE p_scope IS NULL OR s.name = p_scope ORDER BY s.scope_id);
END
$$;

COMMENT ON FUNCTION once._scope_names(text) IS 'the scopes to maintain: one or all';
