-- Notes, after a switch, which transactions are older, and marks the epoch settled when they have ended: no caller can still be
-- on its way to the functions, or the tables, of an earlier epoch.
CREATE FUNCTION once._step_settle_epoch(p_scope once.scope)
RETURNS SETOF jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_epoch once.epoch;
    v_waits text[];
BEGIN
    FOR v_epoch IN
        SELECT * FROM once.epoch AS e
         WHERE e.scope_id = p_scope.scope_id AND e.switched_at IS NOT NULL AND e.settled_at IS NULL ORDER BY e.epoch
    LOOP
        v_waits := once._transactions(v_epoch.waits_for);
        UPDATE once.epoch AS e
           SET waits_for = v_waits, waits_since = coalesce(e.waits_since, clock_timestamp()),
               settled_at = CASE WHEN v_waits = '{}' THEN clock_timestamp() END
         WHERE e.scope_id = p_scope.scope_id AND e.epoch = v_epoch.epoch;
        IF v_waits <> '{}' THEN
            RETURN NEXT once._event(p_scope.name, 'settle', NULL, 'waiting',
                format('%s transactions are older than the switch to epoch %s', cardinality(v_waits), v_epoch.epoch));
        END IF;
    END LOOP;
END
$$;

COMMENT ON FUNCTION once._step_settle_epoch(once.scope) IS 'maintenance step: waits until no transaction is older than the switch to an epoch';
