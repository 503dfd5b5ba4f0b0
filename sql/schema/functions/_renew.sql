-- The common part of heartbeat, checkpoint and abandon. Renews the lease, or ends it (p_lease NULL), or raises.
CREATE FUNCTION once._renew(
    p_scope text, p_key text, p_claim_id uuid, p_attempt integer, p_lease interval, p_checkpoint jsonb, p_note text, p_subject text
)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_epoch bigint;
    v_renewed boolean;
BEGIN
    IF p_claim_id IS NULL OR p_attempt IS NULL THEN
        RAISE EXCEPTION 'claim_id and attempt must not be NULL'
            USING ERRCODE = 'ON004',
                  DETAIL = 'Together they name one claim of the key.',
                  HINT = 'Pass both as the fresh claim returned them.';
    END IF;
    FOR i IN 1..100 LOOP
        v_epoch := once._route(p_scope, p_subject, p_key);
        EXECUTE format('SELECT once_data.%I($1, $2, $3, $4, $5, $6, $7)', p_scope || '_renew_e' || v_epoch)
           INTO v_renewed
          USING p_subject, p_key, p_claim_id, p_attempt, p_lease, p_checkpoint, p_note;
        IF v_renewed THEN
            RETURN;
        END IF;
        EXIT WHEN v_renewed IS NOT NULL;
    END LOOP;
    IF v_renewed IS NULL THEN
        PERFORM once._raise_again(p_scope);
    END IF;
    PERFORM once._raise_lost(p_key, p_attempt);
END
$$;

COMMENT ON FUNCTION once._renew(text, text, uuid, integer, interval, jsonb, text, text) IS 'the common part of heartbeat, checkpoint and abandon';
