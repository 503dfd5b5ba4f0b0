-- Lets the roles recorded for a scope execute the functions of one epoch, and nobody else but their owner.
CREATE FUNCTION once._grant_epoch(p_scope_id integer, p_scope text, p_epoch bigint)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_function regprocedure;
    v_role name;
BEGIN
    FOR v_function IN SELECT once._epoch_functions(p_scope, p_epoch) LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', v_function);
        FOR v_role IN
            SELECT r.rolname FROM once.scope_grant AS g JOIN pg_roles AS r ON r.oid = g.role WHERE g.scope_id = p_scope_id
        LOOP
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', v_function, v_role);
        END LOOP;
    END LOOP;
END
$$;

COMMENT ON FUNCTION once._grant_epoch(integer, text, bigint) IS 'grants the functions of an epoch to the roles of its scope';
