-- Marks sealed generations drained when the transactions that held them for writing after the switch have ended.
CREATE FUNCTION once._step_drain(p_scope once.scope, p_now timestamptz)
RETURNS SETOF jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_generation once.generation;
    v_waits text[];
BEGIN
    FOR v_generation IN
        SELECT * FROM once.generation AS g
         WHERE g.scope_id = p_scope.scope_id AND g.sealed_at IS NOT NULL AND g.drained_at IS NULL AND g.dropped_at IS NULL
         ORDER BY g.generation
    LOOP
        v_waits := once._writers(once._leaf(p_scope.name, v_generation.generation), v_generation.waits_for);
        UPDATE once.generation AS g
           SET waits_for = v_waits, waits_since = coalesce(g.waits_since, clock_timestamp()),
               drained_at = CASE WHEN v_waits = '{}' THEN p_now END
         WHERE g.scope_id = p_scope.scope_id AND g.generation = v_generation.generation;
        IF v_waits = '{}' THEN
            RETURN NEXT once._event(p_scope.name, 'drain', v_generation.generation, 'done', NULL);
        ELSE
            RETURN NEXT once._event(p_scope.name, 'drain', v_generation.generation, 'waiting',
                format('%s transactions may still write to it, see once.holders', cardinality(v_waits)));
        END IF;
    END LOOP;
END
$$;

COMMENT ON FUNCTION once._step_drain(once.scope, timestamptz) IS 'maintenance step: marks sealed generations drained when their last writers have ended';
