-- The common part of complete, fail and release. Settles the claim, or raises.
CREATE FUNCTION once._settle(
    p_scope text, p_key text, p_claim_id uuid, p_attempt integer, p_state once.claim_state,
    p_result bytea, p_content_type text, p_meta jsonb, p_subject text, p_fingerprint bytea
)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_settled boolean;
BEGIN
    IF p_claim_id IS NULL OR p_attempt IS NULL THEN
        RAISE EXCEPTION 'claim_id and attempt must not be NULL'
            USING ERRCODE = 'ON004',
                  DETAIL = 'Together they name one claim of the key.',
                  HINT = 'Pass both as the fresh claim returned them.';
    END IF;
    FOR i IN 1..100 LOOP
        EXECUTE format('SELECT once_data.%I($1, $2, $3, $4, $5, $6, $7, $8, $9)',
                       p_scope || '_settle_e' || once._route(p_scope, p_subject, p_key))
           INTO v_settled
          USING p_subject, p_key, p_claim_id, p_attempt, p_state, p_result, p_content_type, p_meta, p_fingerprint;
        IF v_settled THEN
            RETURN;
        END IF;
        EXIT WHEN v_settled IS NOT NULL;
    END LOOP;
    IF v_settled IS NULL THEN
        PERFORM once._raise_again(p_scope);
    END IF;
    PERFORM once._raise_lost(p_key, p_attempt);
END
$$;

COMMENT ON FUNCTION once._settle(text, text, uuid, integer, once.claim_state, bytea, text, jsonb, text, bytea) IS
    'the common part of complete, fail and release';
