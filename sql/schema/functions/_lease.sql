-- The length of a lease: what the caller asks for, or the scope's.
CREATE FUNCTION once._lease(p_scope text, p_lease interval)
RETURNS interval
LANGUAGE plpgsql STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_lease <= interval '0' OR p_lease > interval '1 year' THEN
        RAISE EXCEPTION 'lease must be positive and at most a year, not %', p_lease
            USING ERRCODE = 'ON004',
                  DETAIL = 'A claim without time left would be taken over at once, by everybody.',
                  HINT = 'Leave it out for the scope''s lease, or call once.abandon to end a lease.';
    END IF;
    RETURN coalesce(p_lease, (SELECT s.lease FROM once.scope AS s WHERE s.name = p_scope));
END
$$;

COMMENT ON FUNCTION once._lease(text, interval) IS 'the length of a lease: what the caller asks for, or the scope''s';
