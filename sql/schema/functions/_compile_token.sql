-- Text of CREATE FUNCTION once_data.<scope>_token_e<E>: issues a token (p_ttl given) or redeems it. A NULL outcome says that the epoch is
-- over: route again.
--
-- A token is a row under an empty subject, so that one which belongs to somebody else is found, and is known as foreign by the
-- digest of its subject.
CREATE FUNCTION once._compile_token(p_scope text, p_epoch bigint, p_generation integer, p_sealed integer[], p_scope_id integer)
RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_leaf integer;
    v_steps text := '';
BEGIN
    FOREACH v_leaf IN ARRAY p_generation || p_sealed LOOP
        v_steps := v_steps || format($t$
    WHEN %2$s THEN
        UPDATE once_data.%1$I
           SET state = 'in_progress', claim_id = v_id, attempt = 1, claimed_at = clock_timestamp(), lease_until = NULL
         WHERE subject = '' AND key = p_key AND state = 'issued' AND pg_sequence_last_value({fence}) = {epoch};$t$,
            p_scope || '_g' || v_leaf, v_leaf);
    END LOOP;

    RETURN once._fill(replace(replace($template$
CREATE FUNCTION once_data.{token}(p_key text, p_owner bytea, p_wait interval, p_ttl interval)
RETURNS once.claim_result
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $body$
DECLARE
    p_subject CONSTANT text := '';
    v_lock CONSTANT bigint := hashtextextended(p_key, hashtextextended(p_subject, pg_sequence_last_value({seed})));
    v_id CONSTANT uuid := gen_random_uuid();
    v_row once.claim_template;
BEGIN
    IF p_ttl IS NOT NULL THEN
        INSERT INTO {open} (claimed_at, lease_until, claim_id, generation, attempt, state, subject, key, fingerprint)
        SELECT clock_timestamp(), clock_timestamp() + p_ttl, v_id, {generation}, 0, 'issued', p_subject, p_key, p_owner
         WHERE pg_sequence_last_value({fence}) = {epoch};
        RETURN ROW(CASE WHEN FOUND THEN 'fresh' END::once.outcome, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::once.claim_result;
    END IF;

    IF NOT pg_try_advisory_xact_lock(v_lock) THEN
        IF pg_sequence_last_value({fence}) IS DISTINCT FROM {epoch} THEN
            RETURN NULL;
        END IF;
        -- Held by another: what is decided is answered without waiting.
        SELECT * INTO v_row FROM ({rows}) AS r;
        IF v_row.fingerprint = p_owner AND v_row.state IN ('done', 'failed', 'parked') THEN
            RETURN once._answer(v_row, NULL);
        ELSIF NOT once._wait_for_lock(v_lock, p_wait) THEN
            RETURN ROW('in_progress'::once.outcome, 1, NULL, interval '1 second', NULL, NULL, NULL, NULL, NULL)::once.claim_result;
        END IF;
    END IF;
    IF v_lock IS NULL OR pg_sequence_last_value({fence}) IS DISTINCT FROM {epoch} THEN
        RETURN NULL;
    END IF;
    SELECT * INTO v_row FROM ({rows}) AS r;
    IF NOT FOUND THEN
        -- An older snapshot does not see a row that was carried over since, into this epoch from one that it sees as the last.
        IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted')
           AND NOT EXISTS (SELECT FROM once.epoch AS e WHERE e.scope_id = {scope_id} AND e.epoch = {epoch}) THEN
            RAISE EXCEPTION 'could not serialize access to a token'
                USING ERRCODE = '40001', HINT = 'The transaction might succeed if retried.';
        END IF;
        RETURN ROW('unknown'::once.outcome, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::once.claim_result;
    ELSIF v_row.fingerprint IS DISTINCT FROM p_owner THEN
        RETURN ROW('foreign'::once.outcome, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::once.claim_result;
    ELSIF v_row.state <> 'issued' THEN
        RETURN once._answer(v_row, NULL);
    ELSIF v_row.lease_until <= clock_timestamp() THEN
        RETURN ROW('expired'::once.outcome, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::once.claim_result;
    END IF;
    CASE v_row.generation{steps}
    END CASE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    RETURN ROW('redeemed'::once.outcome, 1, v_id, NULL, NULL, NULL, NULL, NULL, NULL)::once.claim_result;
END
$body$
$template$, '{steps}', v_steps), '{scope_id}', p_scope_id::text), p_scope, p_epoch, p_generation, p_sealed);
END
$$;

COMMENT ON FUNCTION once._compile_token(text, bigint, integer, integer[], integer) IS 'text of an epoch''s token function';
