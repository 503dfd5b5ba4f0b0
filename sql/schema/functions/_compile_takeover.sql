-- Text of CREATE FUNCTION once_data.<scope>_takeover_e<E>: what becomes of a claim whose lease is over when somebody asks for its
-- key. By the scope's policy the asker takes it over, or it is parked. A NULL outcome says that the epoch is over: route again.
CREATE FUNCTION once._compile_takeover(p_scope text, p_epoch bigint, p_generation integer, p_sealed integer[])
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
           SET state = v_new.state, claim_id = v_new.claim_id, attempt = v_new.attempt, claimed_at = v_new.claimed_at,
               lease_until = v_new.lease_until, note = v_new.note
         WHERE subject = p_subject AND key = p_key AND claim_id = v_row.claim_id AND attempt = v_row.attempt
           AND state = 'in_progress' AND lease_until <= clock_timestamp() AND pg_sequence_last_value({fence}) = {epoch};$t$,
            p_scope || '_g' || v_leaf, v_leaf);
    END LOOP;

    RETURN once._fill(replace($template$
CREATE FUNCTION once_data.{takeover}(p_subject text, p_key text, p_fingerprint bytea, p_lease interval)
RETURNS once.claim_result
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $body$
DECLARE
    v_scope once.scope;
    v_row once.claim_template;
    v_new once.claim_template;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(p_key, hashtextextended(p_subject, pg_sequence_last_value({seed}))));
    IF pg_sequence_last_value({fence}) IS DISTINCT FROM {epoch} THEN
        RETURN NULL;
    END IF;
    SELECT * INTO v_row FROM ({rows}) AS r;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF v_row.state <> 'in_progress' OR p_fingerprint <> v_row.fingerprint OR (v_row.lease_until <= clock_timestamp()) IS NOT TRUE THEN
        RETURN once._answer(v_row, p_fingerprint);
    END IF;

    SELECT * INTO STRICT v_scope FROM once.scope AS s WHERE s.name = {scope};
    v_new := v_row;
    IF v_scope.on_expiry = 'park' OR v_row.attempt >= v_scope.max_attempts THEN
        v_new.state := 'parked';
        v_new.lease_until := NULL;
        v_new.note := coalesce(v_row.note, format('the lease of attempt %s ran out', v_row.attempt));
    ELSE
        -- A claim id is never used again: the number alone comes back when a transaction that took over is rolled back.
        v_new.claim_id := gen_random_uuid();
        v_new.attempt := v_row.attempt + 1;
        v_new.claimed_at := clock_timestamp();
        v_new.lease_until := clock_timestamp() + p_lease;
    END IF;
    CASE v_row.generation{steps}
    END CASE;
    IF NOT FOUND THEN
        RETURN NULL;
    ELSIF v_new.state = 'parked' THEN
        RETURN once._answer(v_new, p_fingerprint);
    END IF;
    RETURN ROW('fresh'::once.outcome, v_new.attempt, v_new.claim_id, p_lease, NULL, NULL, NULL, NULL, NULL)::once.claim_result;
END
$body$
$template$, '{steps}', v_steps), p_scope, p_epoch, p_generation, p_sealed);
END
$$;

COMMENT ON FUNCTION once._compile_takeover(text, bigint, integer, integer[]) IS 'text of an epoch''s takeover function';
