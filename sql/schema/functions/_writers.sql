-- The transactions that may be writing to a table, by their locks; of p_among, where that is given. Prepared transactions are
-- always counted, because a restart gives them another name.
CREATE FUNCTION once._writers(p_table regclass, p_among text[])
RETURNS text[]
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN ARRAY(
        SELECT DISTINCT l.virtualtransaction
          FROM pg_locks AS l
         WHERE l.locktype = 'relation' AND l.relation = p_table
           AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
           AND l.mode = 'RowExclusiveLock' AND l.granted
           AND l.pid IS DISTINCT FROM pg_backend_pid()
           AND (p_among IS NULL OR l.pid IS NULL OR l.virtualtransaction = ANY (p_among)));
END
$$;

COMMENT ON FUNCTION once._writers(regclass, text[]) IS 'the transactions that may be writing to a table';
