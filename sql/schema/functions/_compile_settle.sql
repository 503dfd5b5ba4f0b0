-- Text of CREATE FUNCTION once_data.<scope>_settle_e<E>: ends a claim as done or failed, or gives it back (p_state NULL).
-- True: settled. False: the claim is not (or no longer) there. NULL: the epoch is over, route again.
CREATE FUNCTION once._compile_settle(p_scope text, p_epoch bigint, p_generation integer, p_sealed integer[])
RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_leaf integer;
    v_steps text := '';
BEGIN
    -- The open leaf first: nearly every claim is settled where it was made.
    FOREACH v_leaf IN ARRAY p_generation || p_sealed LOOP
        v_steps := v_steps || format($t$
    IF p_state IS NULL THEN
        DELETE FROM once_data.%1$I
         WHERE subject = p_subject AND key = p_key AND claim_id = p_claim_id AND attempt = p_attempt
           AND state IN ('in_progress', 'parked') AND pg_sequence_last_value({fence}) = {epoch};
    ELSE
        UPDATE once_data.%1$I
           SET state = p_state, finished_at = clock_timestamp(), lease_until = NULL, checkpoints = NULL, note = NULL,
               result = v_result, content_type = p_content_type, meta = p_meta, omitted_bytes = v_omitted
         WHERE subject = p_subject AND key = p_key AND claim_id = p_claim_id AND attempt = p_attempt
           AND state IN ('in_progress', 'parked') AND pg_sequence_last_value({fence}) = {epoch};
    END IF;
    IF FOUND THEN
        RETURN true;
    END IF;$t$, p_scope || '_g' || v_leaf);
    END LOOP;

    RETURN once._fill(replace($template$
CREATE FUNCTION once_data.{settle}(
    p_subject text, p_key text, p_claim_id uuid, p_attempt integer, p_state once.claim_state,
    p_result bytea, p_content_type text, p_meta jsonb, p_fingerprint bytea
)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $body$
DECLARE
    v_lock CONSTANT bigint := hashtextextended(p_key, hashtextextended(p_subject, pg_sequence_last_value({seed})));
    v_mark CONSTANT text := concat(';', v_lock, '=', p_claim_id, ';');
    v_deferred CONSTANT text := current_setting('once.deferred', true);
    v_result bytea := p_result;
    v_omitted bigint;
BEGIN
    IF p_state NOT IN ('done', 'failed') THEN
        RAISE EXCEPTION 'a claim cannot be settled as %', p_state
            USING ERRCODE = 'ON004', DETAIL = 'It ends done or failed, or is released.', HINT = 'Call once.complete, once.fail or once.release.';
    END IF;
    IF octet_length(p_content_type) > 255 OR octet_length(p_meta::text) > 16384 THEN
        RAISE EXCEPTION 'content type or metadata too large'
            USING ERRCODE = 'ON004',
                  DETAIL = 'A content type is at most 255 bytes, the metadata at most 16384 bytes of JSON.',
                  HINT = 'Put what is large into the result itself.';
    END IF;
    IF octet_length(p_result) >= 1024 THEN
        SELECT octet_length(p_result) INTO v_omitted FROM once.scope AS s
         WHERE s.name = {scope} AND octet_length(p_result) > s.max_result_bytes;
        IF FOUND THEN
            v_result := NULL;
        END IF;
    END IF;

    IF strpos(v_deferred, v_mark) > 0 AND p_attempt = 1 THEN
        -- A deferred claim of this transaction, which has held the key's lock since it saw that nobody has the key. So there is
        -- nothing to probe and no conflict to expect; should there be one, it is an error.
        IF p_state IS NULL THEN
            PERFORM set_config('once.deferred', replace(v_deferred, v_mark, ''), true);
            RETURN true;
        END IF;
        INSERT INTO {open} (claimed_at, finished_at, omitted_bytes, claim_id, generation, attempt, state,
                            subject, key, fingerprint, result, content_type, meta)
        SELECT now(), clock_timestamp(), v_omitted, p_claim_id, {generation}, p_attempt, p_state,
               p_subject, p_key, p_fingerprint, v_result, p_content_type, p_meta
         WHERE pg_sequence_last_value({fence}) = {epoch};
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
        PERFORM set_config('once.deferred', replace(v_deferred, v_mark, ''), true);
        RETURN true;
    END IF;

    PERFORM pg_advisory_xact_lock(v_lock);
    {steps}
    RETURN CASE WHEN pg_sequence_last_value({fence}) = {epoch} THEN false END;
END
$body$
$template$, '{steps}', v_steps), p_scope, p_epoch, p_generation, p_sealed);
END
$$;

COMMENT ON FUNCTION once._compile_settle(text, bigint, integer, integer[]) IS 'text of an epoch''s settle function';
