-- Takes a key for work that leaves the database: the claim is committed first, and counts for as long as its lease is renewed.
CREATE FUNCTION once.claim_leased(
    p_scope text,
    p_key text,
    p_fingerprint bytea DEFAULT NULL,
    p_subject text DEFAULT '',
    p_wait interval DEFAULT NULL,
    p_lease interval DEFAULT NULL
)
RETURNS once.claim_result
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_lease interval;
    v_epoch bigint;
    v_result once.claim_result;
BEGIN
    FOR i IN 1..100 LOOP
        v_epoch := once._route(p_scope, p_subject, p_key);
        v_lease := coalesce(v_lease, once._lease(p_scope, p_lease));
        EXECUTE format('SELECT * FROM once_data.%I($1, $2, $3, $4, false, false, NULL, $5)', p_scope || '_claim_e' || v_epoch)
           INTO v_result USING p_subject, p_key, p_fingerprint, p_wait, v_lease;
        IF v_result.outcome = 'in_progress' AND v_result.retry_after <= interval '0' THEN
            EXECUTE format('SELECT * FROM once_data.%I($1, $2, $3, $4)', p_scope || '_takeover_e' || v_epoch)
               INTO v_result USING p_subject, p_key, p_fingerprint, v_lease;
        END IF;
        IF v_result.outcome IS NOT NULL THEN
            RETURN v_result;
        END IF;
    END LOOP;
    PERFORM once._raise_again(p_scope);
END
$$;

COMMENT ON FUNCTION once.claim_leased(text, text, bytea, text, interval, interval) IS
'Takes a key for work that leaves the database; one row says what became of it. Commit, do the work, then complete, fail, release or abandon the claim in a
later transaction; call heartbeat well before the lease is over. Once it is over, the next claim_leased of the key takes the key over with the next attempt, or
parks it, as the scope''s on_expiry and max_attempts say; the earlier attempt can then finish nothing.
p_lease: how long the claim counts unless it is renewed, by the database''s clock; NULL: the scope''s lease. The other parameters are those of once.claim.
Outcomes: fresh (attempt is above 1 after a takeover), replay, in_progress (retry_after: when the lease ends), mismatch, failed, parked.
Raises what once.claim raises, and ON004 for a lease that is not positive.';
