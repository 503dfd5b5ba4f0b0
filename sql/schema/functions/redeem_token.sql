-- Redeems a token in the transaction that does what it stands for.
CREATE FUNCTION once.redeem_token(p_scope text, p_token text, p_subject text, p_wait interval DEFAULT NULL)
RETURNS once.claim_result
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_key text := once.token_key(coalesce(p_token, ''));
    v_epoch bigint;
    v_result once.claim_result;
BEGIN
    FOR i IN 1..100 LOOP
        v_epoch := once._route(p_scope, p_subject, v_key);
        EXECUTE format('SELECT * FROM once_data.%I($1, $2, $3, NULL)', p_scope || '_token_e' || v_epoch)
           INTO v_result USING v_key, sha256(convert_to(p_subject, 'UTF8')), p_wait;
        IF v_result.outcome IS NOT NULL THEN
            RETURN v_result;
        END IF;
    END LOOP;
    PERFORM once._raise_again(p_scope);
END
$$;

COMMENT ON FUNCTION once.redeem_token(text, text, text, interval) IS
'Redeems a token in the transaction that does what it stands for; one row says what became of it. If that transaction is rolled back the token is as it was (once.release would take it away).
p_subject: who redeems it. p_wait: how long to wait for another transaction that redeems it too; NULL: as long as it takes; zero: not at all.
Outcomes: redeemed (do the work, then once.complete or once.fail with once.token_key(token), claim_id, attempt and an empty subject), replay (redeemed before: the stored
result), failed (redeemed before and refused for good), in_progress; and for the server, who should tell the client no more than that the token is not
valid: unknown (never issued, or forgotten after its time), foreign (issued to another subject), expired.
Above READ COMMITTED a token that was issued after the snapshot is unknown. Raises ON001, ON003, ON008, ON010, 42501, and 40001 above READ COMMITTED.';
