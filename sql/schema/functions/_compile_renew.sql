-- Text of CREATE FUNCTION once_data.<scope>_renew_e<E>: extends the lease of a claim, or ends it (p_lease NULL), and stores a step's
-- result. True: done. False: the claim is not (or no longer) there. NULL: the epoch is over, route again.
CREATE FUNCTION once._compile_renew(p_scope text, p_epoch bigint, p_generation integer, p_sealed integer[])
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
    -- Of two results of one step the first stays.
    UPDATE once_data.%1$I
       SET state = CASE WHEN v_park THEN 'parked' ELSE state END::once.claim_state,
           lease_until = CASE WHEN v_park THEN NULL ELSE clock_timestamp() + coalesce(p_lease, interval '0') END,
           checkpoints = CASE WHEN p_checkpoint IS NULL THEN checkpoints ELSE p_checkpoint || coalesce(checkpoints, '{}') END,
           note = coalesce(p_note, note)
     WHERE subject = p_subject AND key = p_key AND claim_id = p_claim_id AND attempt = p_attempt
       AND state = 'in_progress' AND lease_until IS NOT NULL AND pg_sequence_last_value({fence}) = {epoch};
    IF FOUND THEN
        RETURN true;
    END IF;$t$, p_scope || '_g' || v_leaf);
    END LOOP;

    RETURN once._fill(replace($template$
CREATE FUNCTION once_data.{renew}(
    p_subject text, p_key text, p_claim_id uuid, p_attempt integer, p_lease interval, p_checkpoint jsonb, p_note text
)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $body$
DECLARE
    v_park boolean := false;
BEGIN
    IF p_lease IS NULL THEN
        SELECT s.on_expiry = 'park' OR p_attempt >= s.max_attempts INTO STRICT v_park FROM once.scope AS s WHERE s.name = {scope};
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended(p_key, hashtextextended(p_subject, pg_sequence_last_value({seed}))));
    {steps}
    RETURN CASE WHEN pg_sequence_last_value({fence}) = {epoch} THEN false END;
END
$body$
$template$, '{steps}', v_steps), p_scope, p_epoch, p_generation, p_sealed);
END
$$;

COMMENT ON FUNCTION once._compile_renew(text, bigint, integer, integer[]) IS 'text of an epoch''s renew function';
