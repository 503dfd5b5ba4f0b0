-- The functions that a role needs to work in a scope: the interface, and what it calls with the caller's own rights.
CREATE FUNCTION once._interface()
RETURNS SETOF regprocedure
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY
        SELECT p.oid::regprocedure
          FROM pg_proc AS p
         WHERE p.pronamespace = 'once'::regnamespace
           AND p.proname IN ('claim', 'claim_many', 'claim_leased', 'heartbeat', 'checkpoint', 'abandon', 'complete', 'fail', 'release',
                             'lookup', 'current_epoch', 'issue_token', 'redeem_token', 'token_key', '_token_ttl', '_lease', '_renew', '_route', '_check_key', '_settle', '_batch_cap', '_raise_again', '_raise_lost');
END
$$;

COMMENT ON FUNCTION once._interface() IS 'the functions that a role needs to work in a scope';
