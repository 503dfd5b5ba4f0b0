-- Publishes an epoch with a new open generation when the open one is old or full enough. An empty one is left: nothing in it ages.
CREATE FUNCTION once._step_rotate(p_scope once.scope, p_now timestamptz)
RETURNS SETOF jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_epoch once.epoch;
    v_opened timestamptz;
    v_leaf regclass;
    v_rows bigint;
    v_why text;
    v_empty boolean;
    v_next integer;
BEGIN
    SELECT * INTO STRICT v_epoch FROM once.epoch AS e WHERE e.scope_id = p_scope.scope_id ORDER BY e.epoch DESC LIMIT 1;
    SELECT g.opened_at INTO STRICT v_opened
      FROM once.generation AS g WHERE g.scope_id = p_scope.scope_id AND g.generation = v_epoch.generation;
    v_leaf := once._leaf(p_scope.name, v_epoch.generation);
    v_rows := pg_stat_get_live_tuples(v_leaf);
    IF p_now - v_opened >= p_scope.dedup_window / p_scope.generations THEN
        v_why := format('open since %s', v_opened);
    ELSIF v_rows >= p_scope.rotate_rows THEN
        v_why := format('about %s rows', v_rows);
    ELSE
        RETURN;
    END IF;
    EXECUTE format('SELECT NOT EXISTS (SELECT FROM %s)', v_leaf) INTO v_empty;
    IF v_empty THEN
        RETURN;
    END IF;
    SELECT max(g.generation) + 1 INTO v_next FROM once.generation AS g WHERE g.scope_id = p_scope.scope_id;
    PERFORM once._create_generation(p_scope.scope_id, v_next);
    PERFORM once._publish_epoch(p_scope.scope_id, v_next, v_epoch.generation || v_epoch.sealed);
    RETURN NEXT once._event(p_scope.name, 'rotate', v_next, 'done', format('generation %s was %s', v_epoch.generation, v_why));
END
$$;

COMMENT ON FUNCTION once._step_rotate(once.scope, timestamptz) IS 'maintenance step: publishes an epoch with a new open generation when it is due';
