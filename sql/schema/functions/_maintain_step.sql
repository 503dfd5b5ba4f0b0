-- Takes one step of maintenance in one scope, the first that is possible, and reports it; or, where none is, all that is held back
-- and why. Steps that publish end here, so that the publication commits before the switch. Two sessions never work on one scope.
CREATE FUNCTION once._maintain_step(p_scope text, p_now timestamptz)
RETURNS SETOF jsonb
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '1s'
AS $$
DECLARE
    v_scope once.scope;
    v_step text;
    v_events jsonb[];
    v_held jsonb[] := '{}';
BEGIN
    SELECT * INTO v_scope FROM once.scope AS s WHERE s.name = p_scope FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        IF EXISTS (SELECT FROM once.scope AS s WHERE s.name = p_scope) THEN
            RETURN NEXT once._event(p_scope, 'maintain', NULL, 'busy', 'another session is working on this scope');
        END IF;
        RETURN;
    END IF;
    FOREACH v_step IN ARRAY '{repair,switch,rotate,settle,drain,retire,drop,forget}'::text[] LOOP
        -- A lock that is not to be had holds one step back, not the other steps and scopes.
        BEGIN
            CASE v_step
                WHEN 'repair' THEN v_events := ARRAY(SELECT once._step_repair(v_scope));
                WHEN 'switch' THEN v_events := ARRAY(SELECT once._step_switch(v_scope, p_now));
                WHEN 'rotate' THEN v_events := ARRAY(SELECT once._step_rotate(v_scope, p_now));
                WHEN 'settle' THEN v_events := ARRAY(SELECT once._step_settle_epoch(v_scope));
                WHEN 'drain'  THEN v_events := ARRAY(SELECT once._step_drain(v_scope, p_now));
                WHEN 'retire' THEN v_events := ARRAY(SELECT once._step_retire(v_scope, p_now));
                WHEN 'drop'   THEN v_events := ARRAY(SELECT once._step_drop(v_scope, p_now));
                WHEN 'forget' THEN v_events := ARRAY(SELECT once._step_forget_epochs(v_scope));
            END CASE;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            v_events := ARRAY[once._event(p_scope, v_step, NULL, 'busy', SQLERRM)];
        END;
        IF EXISTS (SELECT FROM unnest(v_events) AS e WHERE e ->> 'result' = 'done') THEN
            RETURN QUERY SELECT e FROM unnest(v_events) AS e WHERE e ->> 'result' IN ('done', 'missing');
            RETURN;
        END IF;
        v_held := v_held || v_events;
    END LOOP;
    UPDATE once.scope AS s SET maintained_at = clock_timestamp() WHERE s.scope_id = v_scope.scope_id;
    RETURN QUERY SELECT unnest(v_held);
END
$$;

COMMENT ON FUNCTION once._maintain_step(text, timestamptz) IS 'takes one step of maintenance in one scope and reports it';
