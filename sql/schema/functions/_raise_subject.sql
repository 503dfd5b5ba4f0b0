CREATE FUNCTION once._raise_subject()
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'this scope requires a subject'
        USING ERRCODE = 'ON003',
              HINT = 'Pass the tenant or user that the key belongs to as p_subject.';
END
$$;

COMMENT ON FUNCTION once._raise_subject() IS 'raises ON003: a subject is missing';
