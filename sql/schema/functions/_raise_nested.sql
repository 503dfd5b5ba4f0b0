CREATE FUNCTION once._raise_nested(p_key text)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'key "%" is already claimed by this transaction', p_key
        USING ERRCODE = 'ON009',
              DETAIL = 'The claim is deferred: its row is written when it is completed.',
              HINT = 'Complete the first claim before the key is claimed again, or give nested operations keys of their own.';
END
$$;

COMMENT ON FUNCTION once._raise_nested(text) IS 'raises ON009: a transaction claims its own deferred key again';
