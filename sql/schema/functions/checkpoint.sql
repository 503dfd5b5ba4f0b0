-- Stores the result of a named step of a leased claim, and extends its lease.
CREATE FUNCTION once.checkpoint(
    p_scope text, p_key text, p_claim_id uuid, p_attempt integer, p_step text, p_value jsonb,
    p_subject text DEFAULT '', p_lease interval DEFAULT NULL
)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_step IS NULL OR octet_length(p_step) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION 'a step needs a name of 1 to 255 bytes'
            USING ERRCODE = 'ON004',
                  DETAIL = 'Under it a later attempt finds the result.',
                  HINT = 'Name what the step does, the same in every attempt: charge, ship.';
    ELSIF octet_length(p_value::text) > 65536 THEN
        RAISE EXCEPTION 'the result of step "%" is too large: % bytes', p_step, octet_length(p_value::text)
            USING ERRCODE = 'ON004',
                  DETAIL = 'At most 65536 bytes of JSON a step: it is written again with every heartbeat.',
                  HINT = 'Store a reference to what is large.';
    END IF;
    PERFORM once._renew(p_scope, p_key, p_claim_id, p_attempt, once._lease(p_scope, p_lease),
                        jsonb_build_object(p_step, coalesce(p_value, 'null')), NULL, p_subject);
END
$$;

COMMENT ON FUNCTION once.checkpoint(text, text, uuid, integer, text, jsonb, text, interval) IS
'Stores the result of a named step of a leased claim, at most 64 KiB of JSON, for later attempts to skip the step (once.lookup returns them all as
checkpoints); of two results of one step the first stays. Extends the lease like once.heartbeat, and raises what it raises.
The results are gone when the claim is completed or failed.';
