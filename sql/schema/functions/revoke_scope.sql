-- Takes back what once.grant_scope gave for one scope.
CREATE FUNCTION once.revoke_scope(p_name text, p_role text)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_scope once.scope := once._lock_scope(p_name);
    v_role regrole := once._role(p_role);
    v_function regprocedure;
BEGIN
    DELETE FROM once.scope_grant AS g WHERE g.scope_id = v_scope.scope_id AND g.role = v_role;
    EXECUTE format('REVOKE ALL ON SEQUENCE once_data.%I FROM %s', v_scope.name || '_fence', v_role);
    FOR v_function IN
        SELECT once._epoch_functions(v_scope.name, e.epoch) FROM once.epoch AS e WHERE e.scope_id = v_scope.scope_id
    LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM %s', v_function, v_role);
    END LOOP;
END
$$;

COMMENT ON FUNCTION once.revoke_scope(text, text) IS
'Takes back what once.grant_scope gave a role for one scope. Raises ON001, ON004 (no such role).';
