-- Lets a role claim in a scope: call the interface, read the scope's fence, execute the functions of its epochs, those to come
-- included. It can read no table, and nothing of other scopes.
CREATE FUNCTION once.grant_scope(p_name text, p_role text)
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
    INSERT INTO once.scope_grant (scope_id, role) VALUES (v_scope.scope_id, v_role) ON CONFLICT DO NOTHING;
    EXECUTE format('GRANT USAGE ON SCHEMA once, once_data TO %s', v_role);
    FOR v_function IN SELECT once._interface() LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', v_function, v_role);
    END LOOP;
    EXECUTE format('GRANT SELECT ON SEQUENCE once_data.%I TO %s', v_scope.name || '_fence', v_role);
    PERFORM once._grant_epoch(v_scope.scope_id, v_scope.name, e.epoch) FROM once.epoch AS e WHERE e.scope_id = v_scope.scope_id;
END
$$;

COMMENT ON FUNCTION once.grant_scope(text, text) IS
'Lets a role claim, complete and look up keys in a scope, and nothing else. Raises ON001, ON004 (no such role).';
