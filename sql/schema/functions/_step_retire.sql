-- Takes the oldest generation past its window out of the epochs: carries over what must outlive it, then publishes an epoch
-- without it. One transaction's worth of work at a time.
CREATE FUNCTION once._step_retire(p_scope once.scope, p_now timestamptz)
RETURNS SETOF jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    c_batch constant integer := 200;
    v_generation once.generation;
    v_epoch once.epoch;
    v_carried integer;
    v_busy integer;
    v_conflicts integer;
    v_left boolean;
BEGIN
    SELECT * INTO v_generation FROM once.generation AS g
     WHERE g.scope_id = p_scope.scope_id AND g.unlinked_at IS NULL AND g.dropped_at IS NULL
       AND g.drained_at + p_scope.dedup_window <= p_now
     ORDER BY g.generation LIMIT 1;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF p_scope.archive <> 'discard' THEN
        RETURN NEXT once._event(p_scope.name, 'retire', v_generation.generation, 'kept', format('archive is %s', p_scope.archive));
        RETURN;
    END IF;
    SELECT c.carried, c.busy, c.conflicts INTO v_carried, v_busy, v_conflicts FROM once._carry_over(p_scope, v_generation.generation, p_now, c_batch) AS c;
    IF v_carried > 0 THEN
        RETURN NEXT once._event(p_scope.name, 'carry over', v_generation.generation, 'done', format('%s rows', v_carried));
        RETURN;
    END IF;
    EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE %s)',
                   once._leaf(p_scope.name, v_generation.generation), once._outlives(p_scope, p_now)) INTO v_left;
    IF v_left THEN
        RETURN NEXT once._event(p_scope.name, 'carry over', v_generation.generation, 'busy', format('%s keys are locked, %s have a row in the open generation too', v_busy, v_conflicts));
        RETURN;
    END IF;
    SELECT * INTO STRICT v_epoch FROM once.epoch AS e WHERE e.scope_id = p_scope.scope_id ORDER BY e.epoch DESC LIMIT 1;
    PERFORM once._publish_epoch(p_scope.scope_id, v_epoch.generation, array_remove(v_epoch.sealed, v_generation.generation));
    RETURN NEXT once._event(p_scope.name, 'unlink', v_generation.generation, 'done', NULL);
END
$$;

COMMENT ON FUNCTION once._step_retire(once.scope, timestamptz) IS 'maintenance step: carries over from, then unlinks, the oldest generation past its window';
