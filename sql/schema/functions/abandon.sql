-- Ends the lease of a claim early: its outcome is unknown.
CREATE FUNCTION once.abandon(
    p_scope text, p_key text, p_claim_id uuid, p_attempt integer, p_reason text, p_subject text DEFAULT ''
)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM once._renew(p_scope, p_key, p_claim_id, p_attempt, NULL, NULL, left(p_reason, 1000), p_subject);
END
$$;

COMMENT ON FUNCTION once.abandon(text, text, uuid, integer, text, text) IS
'Ends a leased claim whose work failed with an unknown outcome, as the end of its lease would: the next claim_leased takes it over, or it is parked, as
the scope''s on_expiry and max_attempts say. p_reason is kept with the claim (at most 1,000 characters). Work that certainly had no effect is released instead.
Raises ON007 if the claim is not the current one, ON001 to ON004, ON008, ON010; 40001 above READ COMMITTED.';
