-- Drops the functions of epochs that nobody can be on the way to any more.
CREATE FUNCTION once._step_forget_epochs(p_scope once.scope)
RETURNS SETOF jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_epoch bigint;
    v_function regprocedure;
BEGIN
    FOR v_epoch IN
        SELECT e.epoch FROM once.epoch AS e
         WHERE e.scope_id = p_scope.scope_id
           AND e.epoch < (SELECT max(s.epoch) FROM once.epoch AS s WHERE s.scope_id = e.scope_id AND s.settled_at IS NOT NULL)
         ORDER BY e.epoch
    LOOP
        FOR v_function IN SELECT once._epoch_functions(p_scope.name, v_epoch) LOOP
            EXECUTE format('DROP FUNCTION %s', v_function);
        END LOOP;
        DELETE FROM once.epoch AS e WHERE e.scope_id = p_scope.scope_id AND e.epoch = v_epoch;
        RETURN NEXT once._event(p_scope.name, 'forget epoch', NULL, 'done', format('epoch %s', v_epoch));
    END LOOP;
END
$$;

COMMENT ON FUNCTION once._step_forget_epochs(once.scope) IS 'maintenance step: drops the functions of epochs that are over';
