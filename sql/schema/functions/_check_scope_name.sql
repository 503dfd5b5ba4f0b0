CREATE FUNCTION once._check_scope_name(p_name text)
RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_name IS NULL OR p_name !~ '^[a-z][a-z0-9_]{0,31}$' THEN
        RAISE EXCEPTION 'invalid scope name: %', coalesce(quote_literal(left(p_name, 64)), 'NULL')
            USING ERRCODE = 'ON005',
                  DETAIL = 'A scope name is 1 to 32 characters: a lower-case letter, then lower-case letters, digits and underscores.',
                  HINT = 'It becomes part of table and function names. Choose one like pay_callback.';
    END IF;
    IF p_name ~ '(_g[0-9]+|_fence|_seed|_pk|_open_idx)$' THEN
        RAISE EXCEPTION 'invalid scope name: %', quote_literal(p_name)
            USING ERRCODE = 'ON005',
                  DETAIL = 'Names that end in _g and digits, _fence, _seed, _pk or _open_idx are those of another scope''s tables.',
                  HINT = 'Choose another ending.';
    END IF;
END
$$;

COMMENT ON FUNCTION once._check_scope_name(text) IS 'raises ON005 unless the name can be a scope''s';
