-- Gives a claim back: the key is as if it had never been claimed.
CREATE FUNCTION once.release(p_scope text, p_key text, p_claim_id uuid, p_attempt integer, p_subject text DEFAULT '')
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM once._settle(p_scope, p_key, p_claim_id, p_attempt, NULL, NULL, NULL, NULL, p_subject, NULL);
END
$$;

COMMENT ON FUNCTION once.release(text, text, uuid, integer, text) IS
'Gives an unfinished claim back, so that the key can be claimed again. Only for work that certainly had no effect.
Raises ON007 if the claim is not the current one, ON001 to ON004, ON008, ON010; 40001 above READ COMMITTED.';
