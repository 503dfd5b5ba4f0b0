-- Switches to an epoch that is published.
CREATE FUNCTION once._step_switch(p_scope once.scope, p_now timestamptz)
RETURNS SETOF jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_epoch bigint := once._switch_epoch(p_scope.scope_id, p_now);
BEGIN
    IF v_epoch IS NOT NULL THEN
        RETURN NEXT once._event(p_scope.name, 'switch',
            (SELECT e.generation FROM once.epoch AS e WHERE e.scope_id = p_scope.scope_id AND e.epoch = v_epoch),
            'done', format('epoch %s is current', v_epoch));
    END IF;
END
$$;

COMMENT ON FUNCTION once._step_switch(once.scope, timestamptz) IS 'maintenance step: switches to an epoch that is published';
