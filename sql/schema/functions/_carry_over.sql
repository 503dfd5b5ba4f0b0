-- Moves rows that must outlive a generation into the open one, key by key under the key's lock, and leaves tombstones. At most
-- p_limit keys; keys that are locked are passed over, however many they are. An unfinished claim whose lease is over, or that has none, becomes parked:
-- its generation has expired around it.
CREATE FUNCTION once._carry_over(p_scope once.scope, p_generation integer, p_now timestamptz, p_limit integer, OUT carried integer, OUT busy integer, OUT conflicts integer)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_fence regclass := once._fence(p_scope.name);
    v_leaf regclass := once._leaf(p_scope.name, p_generation);
    v_seed bigint := pg_sequence_last_value(to_regclass('once_data.' || quote_ident(p_scope.name || '_seed')));
    v_outlives text := once._outlives(p_scope, p_now);
    v_open integer;
    v_epoch bigint;
    v_row record;
    v_count integer;
BEGIN
    carried := 0;
    busy := 0;
    conflicts := 0;
    SELECT e.epoch, e.generation INTO STRICT v_epoch, v_open
      FROM once.epoch AS e WHERE e.scope_id = p_scope.scope_id AND e.epoch = pg_sequence_last_value(v_fence);
    FOR v_row IN EXECUTE format('SELECT subject, key FROM %s WHERE %s', v_leaf, v_outlives) LOOP
        EXIT WHEN carried + conflicts >= p_limit; -- each of them has a lock until the transaction ends
        IF NOT pg_try_advisory_xact_lock(hashtextextended(v_row.key, hashtextextended(v_row.subject, v_seed))) THEN
            busy := busy + 1;
            CONTINUE;
        END IF;
        -- Read again, under the lock.
        EXECUTE format(
            'INSERT INTO %s (claimed_at, finished_at, lease_until, omitted_bytes, claim_id, generation, attempt, state,
                             subject, key, fingerprint, result, content_type, meta, checkpoints, note)
             SELECT claimed_at, finished_at, lease_until, omitted_bytes, claim_id, %s, attempt,
                    CASE WHEN state = ''in_progress'' AND coalesce(lease_until <= clock_timestamp(), true)
                         THEN ''parked'' ELSE state END::once.claim_state,
                    subject, key, fingerprint, result, content_type, meta, checkpoints,
                    CASE WHEN state = ''in_progress'' AND coalesce(lease_until <= clock_timestamp(), true)
                         THEN ''unfinished when its generation expired'' ELSE note END
               FROM %s WHERE subject = $1 AND key = $2 AND %s AND pg_sequence_last_value(%L::regclass) = %s
                 ON CONFLICT DO NOTHING',
            once._leaf(p_scope.name, v_open), v_open, v_leaf, v_outlives, v_fence, v_epoch)
        USING v_row.subject, v_row.key;
        GET DIAGNOSTICS v_count = ROW_COUNT;
        IF v_count = 1 THEN
            EXECUTE format('UPDATE %s SET state = ''tombstone'', result = NULL, meta = NULL, checkpoints = NULL WHERE subject = $1 AND key = $2', v_leaf)
              USING v_row.subject, v_row.key;
            carried := carried + 1;
        ELSE
            conflicts := conflicts + 1; -- the key was claimed anew, after a repair or a change by hand
        END IF;
    END LOOP;
    UPDATE once.generation AS g SET carried = g.carried + _carry_over.carried
     WHERE g.scope_id = p_scope.scope_id AND g.generation = p_generation AND _carry_over.carried > 0;
END
$$;

COMMENT ON FUNCTION once._carry_over(once.scope, integer, timestamptz, integer) IS
    'moves rows that must outlive a generation into the open one, leaving tombstones';
