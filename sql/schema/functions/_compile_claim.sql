-- Text of CREATE FUNCTION once_data.<scope>_claim_e<E>, the body of once.claim for one epoch. A NULL outcome says that the
-- epoch is over: route again.
--
-- The order of steps is the proof; see docs/protocol.md. In short: the key's lock comes first, then every statement that
-- decides checks the fence itself, after its leaf's lock is held.
CREATE FUNCTION once._compile_claim(
    p_scope text, p_epoch bigint, p_generation integer, p_sealed integer[], p_scope_id integer
)
RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_tombstones text := '';
    v_leaf integer;
    v_subject_required boolean;
    v_text text;
BEGIN
    SELECT s.subject_required INTO STRICT v_subject_required FROM once.scope AS s WHERE s.scope_id = p_scope_id;

    -- Above READ COMMITTED: prove the key's absence from a sealed leaf by writing, because the unique index sees what the
    -- snapshot cannot (an invisible row raises 40001). A drained mark visible to the snapshot makes reading enough.
    FOREACH v_leaf IN ARRAY p_sealed LOOP
        v_tombstones := v_tombstones || format($t$
        IF NOT EXISTS (SELECT FROM once.generation AS g
                        WHERE g.scope_id = %1$s AND g.generation = %2$s AND g.drained_at IS NOT NULL) THEN
            INSERT INTO once_data.%3$I (claimed_at, claim_id, generation, attempt, state, subject, key)
            SELECT now(), v_id, %2$s, 0, 'tombstone', p_subject, p_key
             WHERE pg_sequence_last_value({fence}) = {epoch}
                ON CONFLICT DO NOTHING;
        END IF;$t$, p_scope_id, v_leaf, p_scope || '_g' || v_leaf);
    END LOOP;

    v_text := $template$
CREATE FUNCTION once_data.{claim}(
    p_subject text, p_key text, p_fingerprint bytea, p_wait interval, p_defer boolean, p_done boolean, p_claim_id uuid, p_lease interval
)
RETURNS once.claim_result
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $body$
DECLARE
    v_lock CONSTANT bigint := hashtextextended(p_key, hashtextextended(p_subject, pg_sequence_last_value({seed})));
    v_id uuid;
    v_row once.claim_template;
    v_deferred text;
    v_state once.claim_state := 'in_progress';
    v_finished_at timestamptz;
BEGIN
    IF octet_length(p_key) NOT BETWEEN 1 AND 255 OR octet_length(p_subject){subject_check} THEN
        PERFORM once._check_key(p_subject, p_key, {subject_required});
    END IF;
    IF NOT pg_try_advisory_xact_lock(v_lock) THEN
        IF pg_sequence_last_value({fence}) IS DISTINCT FROM {epoch} THEN
            RETURN NULL;
        END IF;
        -- Held by another: a finished row is answered without waiting, so that duplicates of a hot key do not queue.
        SELECT * INTO v_row FROM ({rows}) AS r;
        IF v_row.state IN ('done', 'failed', 'parked') OR p_fingerprint <> v_row.fingerprint THEN
            {replay}
            RETURN once._answer(v_row, p_fingerprint);
        END IF;
        IF NOT once._wait_for_lock(v_lock, p_wait) THEN
            RETURN ROW('in_progress'::once.outcome, coalesce(v_row.attempt, 1), NULL, interval '1 second', NULL, NULL, NULL, NULL, NULL)::once.claim_result;
        END IF;
    END IF;

    -- From here on nobody else decides about this key. The fence is looked at only now: while this call waited, generations may
    -- have rotated, and the one that it waited for may have finished the key where this epoch does not look. (No lock: no seed.)
    IF v_lock IS NULL OR pg_sequence_last_value({fence}) IS DISTINCT FROM {epoch} THEN
        RETURN NULL;
    END IF;
    v_id := coalesce(p_claim_id, gen_random_uuid());
    IF p_done THEN
        v_state := 'done';
        v_finished_at := clock_timestamp();
    END IF;
    IF current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN
        IF p_defer AND NOT p_done THEN
            SELECT * INTO v_row FROM ({rows}) AS r;
            IF FOUND THEN
                {replay}
                RETURN once._answer(v_row, p_fingerprint);
            END IF;
            v_deferred := current_setting('once.deferred', true);
            IF strpos(v_deferred, ';' || v_lock || '=') > 0 THEN
                PERFORM once._raise_nested(p_key);
            END IF;
            PERFORM set_config('once.deferred', concat(v_deferred, ';', v_lock, '=', v_id, ';'), true);
            RETURN ROW('fresh'::once.outcome, 1, v_id, NULL, NULL, NULL, NULL, NULL, NULL)::once.claim_result;
        END IF;
    ELSE
        NULL;{tombstones}
    END IF;
    INSERT INTO {open} (claimed_at, finished_at, lease_until, claim_id, generation, attempt, state, subject, key, fingerprint)
    SELECT clock_timestamp(), v_finished_at, clock_timestamp() + p_lease, v_id, {generation}, 1, v_state, p_subject, p_key, p_fingerprint
     WHERE pg_sequence_last_value({fence}) = {epoch} AND {unknown}
        ON CONFLICT DO NOTHING;
    IF FOUND THEN
        IF strpos(current_setting('once.deferred', true), ';' || v_lock || '=') > 0 THEN
            PERFORM once._raise_nested(p_key);
        END IF;
        RETURN ROW('fresh'::once.outcome, 1, v_id, p_lease, NULL, NULL, NULL, NULL, NULL)::once.claim_result;
    END IF;
    -- A second statement, because the first could not see what beat it. No row: the fence moved, or the row is gone meanwhile.
    SELECT * INTO v_row FROM ({rows}) AS r;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    RETURN once._answer(v_row, p_fingerprint);
END
$body$
$template$;
    v_text := replace(v_text, '{tombstones}', v_tombstones);
    -- What once._answer would say of most duplicates, without the call.
    v_text := replace(v_text, '{replay}', $t$IF v_row.state = 'done' AND (p_fingerprint <> v_row.fingerprint) IS NOT TRUE THEN
                RETURN ROW('replay'::once.outcome, v_row.attempt, v_row.claim_id, NULL::interval, v_row.result,
                           v_row.content_type, v_row.meta, v_row.omitted_bytes, v_row.finished_at)::once.claim_result;
            END IF;$t$);
    v_text := replace(v_text, '{subject_check}', CASE WHEN v_subject_required THEN ' NOT BETWEEN 1 AND 255' ELSE ' > 255' END);
    v_text := replace(v_text, '{subject_required}', v_subject_required::text);
    RETURN once._fill(v_text, p_scope, p_epoch, p_generation, p_sealed);
END
$$;

COMMENT ON FUNCTION once._compile_claim(text, bigint, integer, integer[], integer) IS 'text of an epoch''s claim function';
