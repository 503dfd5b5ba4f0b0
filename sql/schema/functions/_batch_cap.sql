-- How many keys one batch may claim. Every key is one lock in shared memory until the transaction ends, and a full lock table
-- fails other sessions: a batch gets an eighth of it at most, and never more than 1000.
CREATE FUNCTION once._batch_cap()
RETURNS integer
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN least(1000, current_setting('max_locks_per_transaction')::bigint
                       * (current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint) / 8);
END
$$;

COMMENT ON FUNCTION once._batch_cap() IS 'how many keys one batch may claim';
