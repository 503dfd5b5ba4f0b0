-- The transactions that are running in this database, this one aside; of p_among, where that is given. Prepared ones are
-- left out: they call nothing any more.
CREATE FUNCTION once._transactions(p_among text[])
RETURNS text[]
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN ARRAY(
        SELECT l.virtualtransaction
          FROM pg_locks AS l
          JOIN pg_stat_activity AS a ON a.pid = l.pid
         WHERE l.locktype = 'virtualxid' AND l.granted AND l.virtualtransaction = l.virtualxid
           AND l.pid <> pg_backend_pid() AND a.datname = current_database()
           AND a.backend_type IS DISTINCT FROM 'autovacuum worker'
           AND (p_among IS NULL OR l.virtualtransaction = ANY (p_among)));
END
$$;

COMMENT ON FUNCTION once._transactions(text[]) IS 'the transactions that are running in this database';
