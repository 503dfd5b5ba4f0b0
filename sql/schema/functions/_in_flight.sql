-- Claims that are committed and not finished, of every scope.
CREATE FUNCTION once._in_flight()
RETURNS TABLE (scope text, generation integer, subject text, key text, state once.claim_state, attempt integer,
               claim_id uuid, claimed_at timestamptz, lease_until timestamptz)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_scope text;
    v_leaf regclass;
BEGIN
    FOR v_scope, v_leaf IN
        SELECT s.name, once._leaf(s.name, g.generation)
          FROM once.scope AS s JOIN once.generation AS g ON g.scope_id = s.scope_id
         WHERE g.dropped_at IS NULL ORDER BY s.name, g.generation
    LOOP
        CONTINUE WHEN v_leaf IS NULL;
        RETURN QUERY EXECUTE format(
            'SELECT %L::text, c.generation, c.subject, c.key, c.state, c.attempt, c.claim_id, c.claimed_at, c.lease_until
               FROM %s AS c WHERE c.state IN (''in_progress'', ''parked'') ORDER BY c.claimed_at', v_scope, v_leaf);
    END LOOP;
END
$$;

COMMENT ON FUNCTION once._in_flight() IS 'claims that are committed and not finished, of every scope';
