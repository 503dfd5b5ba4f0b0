-- Detaches, then drops, generations that no epoch in use names any more. Nothing waits longer than the lock_timeout below, least of
-- all for the parent, which a new backend reads once.
CREATE FUNCTION once._step_drop(p_scope once.scope, p_now timestamptz)
RETURNS SETOF jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '50ms'
AS $$
DECLARE
    v_generation once.generation;
    v_leaf regclass;
    v_attached boolean;
    v_left boolean;
    v_rows bigint;
    v_carried integer;
BEGIN
    FOR v_generation IN
        SELECT * FROM once.generation AS g
         WHERE g.scope_id = p_scope.scope_id AND g.unlinked_at IS NOT NULL AND g.dropped_at IS NULL
           AND NOT EXISTS (SELECT FROM once.epoch AS e
                            WHERE e.scope_id = g.scope_id AND g.generation = ANY (e.generation || e.sealed)
                              AND e.epoch >= (SELECT max(s.epoch) FROM once.epoch AS s
                                               WHERE s.scope_id = g.scope_id AND s.settled_at IS NOT NULL))
           AND EXISTS (SELECT FROM once.epoch AS s
                        WHERE s.scope_id = g.scope_id AND s.settled_at IS NOT NULL AND s.switched_at >= g.unlinked_at)
         ORDER BY g.generation
    LOOP
        v_leaf := once._leaf(p_scope.name, v_generation.generation);
        v_attached := EXISTS (SELECT FROM pg_inherits AS i WHERE i.inhrelid = v_leaf);
        BEGIN
            IF v_attached THEN
                EXECUTE format('ALTER TABLE once_data.%I DETACH PARTITION %s%s', p_scope.name, v_leaf,
                    CASE WHEN (SELECT i.inhdetachpending FROM pg_inherits AS i WHERE i.inhrelid = v_leaf) THEN ' FINALIZE' ELSE '' END);
            END IF;
            IF v_generation.detached_at IS NULL THEN
                UPDATE once.generation AS g SET detached_at = clock_timestamp()
                 WHERE g.scope_id = p_scope.scope_id AND g.generation = v_generation.generation;
                RETURN NEXT once._event(p_scope.name, 'detach', v_generation.generation, 'done', NULL);
                RETURN;
            END IF;
            EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', v_leaf);
            -- Looked at again under the lock, since somebody may have changed a row by hand.
            SELECT c.carried INTO v_carried FROM once._carry_over(p_scope, v_generation.generation, p_now, 200) AS c;
            EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE %s)', v_leaf, once._outlives(p_scope, p_now)) INTO v_left;
            IF v_left OR v_carried > 0 THEN
                RETURN NEXT once._event(p_scope.name, 'drop', v_generation.generation, CASE WHEN v_carried > 0 THEN 'done' ELSE 'busy' END,
                    format('rows in it must live, carried over %s of them', v_carried));
                RETURN;
            END IF;
            EXECUTE format('SELECT count(*) FROM %s WHERE state <> ''tombstone''', v_leaf) INTO v_rows;
            EXECUTE format('DROP TABLE %s', v_leaf);
            UPDATE once.generation AS g SET dropped_at = clock_timestamp(), waits_for = NULL
             WHERE g.scope_id = p_scope.scope_id AND g.generation = v_generation.generation;
            RETURN NEXT once._event(p_scope.name, 'drop', v_generation.generation, 'done', format('%s rows discarded', v_rows));
            RETURN;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            RETURN NEXT once._event(p_scope.name, CASE WHEN v_generation.detached_at IS NULL THEN 'detach' ELSE 'drop' END,
                v_generation.generation, 'busy', SQLERRM);
        END;
    END LOOP;
END
$$;

COMMENT ON FUNCTION once._step_drop(once.scope, timestamptz) IS 'maintenance step: detaches, then drops, generations that no epoch in use names';
