-- Drops a scope and everything it has. Keys are forgotten, so it is refused while there are any that may still come again.
CREATE FUNCTION once.drop_scope(p_name text, p_discard_keys boolean DEFAULT false)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
    v_scope once.scope := once._lock_scope(p_name);
    v_leaf regclass;
    v_epoch bigint;
    v_function regprocedure;
    v_found boolean;
BEGIN
    IF p_discard_keys IS NOT TRUE AND current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'scope % may hold keys that this transaction does not see', p_name
            USING ERRCODE = 'ON012',
                  DETAIL = format('The transaction is %s, its snapshot may be older than what was claimed.', upper(current_setting('transaction_isolation'))),
                  HINT = 'Drop the scope in a READ COMMITTED transaction.';
    END IF;
    FOR v_leaf IN
        SELECT once._leaf(v_scope.name, g.generation) FROM once.generation AS g
         WHERE g.scope_id = v_scope.scope_id AND g.dropped_at IS NULL ORDER BY g.generation DESC
    LOOP
        CONTINUE WHEN v_leaf IS NULL;
        -- Under the lock nobody adds a key behind the check.
        EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', v_leaf);
        EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE %s)', v_leaf, once._outlives(v_scope, clock_timestamp())) INTO v_found;
        IF v_found AND p_discard_keys IS NOT TRUE THEN
            RAISE EXCEPTION 'scope % holds keys that are unfinished or inside their window', p_name
                USING ERRCODE = 'ON012',
                      DETAIL = format('There are such rows in %s.', v_leaf),
                      HINT = format('Once no caller can repeat them: SELECT once.drop_scope(%L, p_discard_keys => true);', p_name);
        END IF;
        EXECUTE format('DROP TABLE %s', v_leaf);
    END LOOP;
    EXECUTE format('DROP TABLE IF EXISTS once_data.%I', v_scope.name);
    FOR v_epoch IN SELECT e.epoch FROM once.epoch AS e WHERE e.scope_id = v_scope.scope_id LOOP
        FOR v_function IN SELECT once._epoch_functions(v_scope.name, v_epoch) LOOP
            EXECUTE format('DROP FUNCTION %s', v_function);
        END LOOP;
    END LOOP;
    EXECUTE format('DROP SEQUENCE IF EXISTS once_data.%I, once_data.%I', v_scope.name || '_fence', v_scope.name || '_seed');
    DELETE FROM once.scope AS s WHERE s.scope_id = v_scope.scope_id;
END
$$;

COMMENT ON FUNCTION once.drop_scope(text, boolean) IS
'Drops a scope with its tables, functions and keys. Refused while it holds keys that are unfinished or inside their window, unless
p_discard_keys. Waits at most five seconds for each lock. Raises ON001, ON012, 55P03. The owner of pgonce may call it, and whoever is granted it.';
