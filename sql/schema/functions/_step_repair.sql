-- Brings fence and epochs together where a restore or a switchover left them apart: a fence beyond the newest epoch, functions or
-- tables that are missing, partitions that the catalogue does not know. What there is becomes sealed, a fresh generation is
-- opened, and an epoch beyond both numbers is published. A fence behind the newest epoch is an ordinary switch to come, unless
-- that switch was made before: then an earlier epoch may have been at work again since, and what was known of it is void.
CREATE FUNCTION once._step_repair(p_scope once.scope)
RETURNS SETOF jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_seed regclass := to_regclass('once_data.' || quote_ident(p_scope.name || '_seed'));
    v_newest once.epoch;
    v_fence bigint := pg_sequence_last_value(once._fence(p_scope.name));
    v_missing integer[];
    v_unknown integer[];
    v_behind boolean;
    v_live integer[];
    v_open integer;
    v_epoch bigint;
BEGIN
    IF v_seed IS NOT NULL AND pg_sequence_last_value(v_seed) IS NULL THEN
        -- Sequences do not follow a logical switchover. Without a seed there are no locks, so it comes before the fence.
        PERFORM setval(v_seed, hashtextextended(gen_random_uuid()::text, 0) / 2);
        RETURN NEXT once._event(p_scope.name, 'repair', NULL, 'done', 'the seed of the key locks was lost, and is made anew');
        RETURN;
    END IF;
    SELECT * INTO v_newest FROM once.epoch AS e WHERE e.scope_id = p_scope.scope_id ORDER BY e.epoch DESC LIMIT 1;
    SELECT array_agg(g.generation ORDER BY g.generation) INTO v_missing
      FROM once.generation AS g
     WHERE g.scope_id = p_scope.scope_id AND g.dropped_at IS NULL AND once._leaf(p_scope.name, g.generation) IS NULL;
    SELECT array_agg(substring(c.relname FROM '_g([0-9]+)$')::integer) INTO v_unknown
      FROM pg_inherits AS i
      JOIN pg_class AS c ON c.oid = i.inhrelid
     WHERE i.inhparent = to_regclass('once_data.' || quote_ident(p_scope.name))
       AND c.relname ~ ('^' || p_scope.name || '_g[0-9]{1,9}$')
       AND NOT EXISTS (SELECT FROM once.generation AS g
                        WHERE g.scope_id = p_scope.scope_id AND g.dropped_at IS NULL AND c.relname = p_scope.name || '_g' || g.generation);
    v_behind := v_newest.switched_at IS NOT NULL AND coalesce(v_fence, 0) < v_newest.epoch;
    IF v_behind THEN
        UPDATE once.generation AS g SET drained_at = NULL, waits_for = NULL, waits_since = NULL
         WHERE g.scope_id = p_scope.scope_id AND g.unlinked_at IS NULL AND g.dropped_at IS NULL;
        UPDATE once.epoch AS e SET switched_at = NULL, settled_at = NULL, waits_for = NULL, waits_since = NULL
         WHERE e.scope_id = p_scope.scope_id AND e.epoch = v_newest.epoch;
    END IF;
    IF v_missing IS NULL AND v_unknown IS NULL AND v_newest.epoch IS NOT NULL
       AND coalesce(v_fence, 0) <= v_newest.epoch
       AND (SELECT count(*) FROM once._epoch_functions(p_scope.name, v_newest.epoch)) = 6 THEN
        IF v_behind THEN
            RETURN NEXT once._event(p_scope.name, 'repair', NULL, 'done',
                format('fence %s was behind epoch %s, which was current before', coalesce(v_fence::text, 'NULL'), v_newest.epoch));
        END IF;
        RETURN;
    END IF;

    UPDATE once.generation AS g SET dropped_at = clock_timestamp()
     WHERE g.scope_id = p_scope.scope_id AND g.generation = ANY (v_missing);
    INSERT INTO once.generation (scope_id, generation, opened_at, sealed_at)
    SELECT p_scope.scope_id, u.generation, clock_timestamp(), clock_timestamp() FROM unnest(v_unknown) AS u(generation)
        ON CONFLICT (scope_id, generation) DO UPDATE SET sealed_at = excluded.sealed_at, drained_at = NULL, unlinked_at = NULL, detached_at = NULL, dropped_at = NULL;
    SELECT coalesce(array_agg(g.generation ORDER BY g.generation DESC), '{}') INTO v_live
      FROM once.generation AS g
     WHERE g.scope_id = p_scope.scope_id AND g.unlinked_at IS NULL AND g.dropped_at IS NULL;
    SELECT max(g.generation) + 1 INTO v_open FROM once.generation AS g WHERE g.scope_id = p_scope.scope_id;
    v_open := coalesce(v_open, 1);
    WHILE once._leaf(p_scope.name, v_open) IS NOT NULL LOOP
        v_open := v_open + 1;
    END LOOP;
    PERFORM once._create_generation(p_scope.scope_id, v_open);
    v_epoch := once._publish_epoch(p_scope.scope_id, v_open, v_live);
    IF v_missing IS NOT NULL THEN
        RETURN NEXT once._event(p_scope.name, 'repair', NULL, 'missing',
            format('the tables of generations %s are gone, and their keys with them', array_to_string(v_missing, ', ')));
    END IF;
    RETURN NEXT once._event(p_scope.name, 'repair', v_open, 'done',
        format('fence %s and newest epoch %s did not fit; published epoch %s', coalesce(v_fence::text, 'NULL'), coalesce(v_newest.epoch::text, 'NULL'), v_epoch));
END
$$;

COMMENT ON FUNCTION once._step_repair(once.scope) IS 'maintenance step: publishes an epoch that fits what there is, where fence and epochs are apart';
