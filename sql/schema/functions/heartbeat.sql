-- Extends the lease of a claim.
CREATE FUNCTION once.heartbeat(
    p_scope text, p_key text, p_claim_id uuid, p_attempt integer, p_subject text DEFAULT '', p_lease interval DEFAULT NULL
)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM once._renew(p_scope, p_key, p_claim_id, p_attempt, once._lease(p_scope, p_lease), NULL, NULL, p_subject);
END
$$;

COMMENT ON FUNCTION once.heartbeat(text, text, uuid, integer, text, interval) IS
'Extends the lease of a leased claim: it ends p_lease (NULL: the scope''s lease) from now, by the database''s clock. A lease that is over can still be
extended while nobody has taken the key over.
Raises ON007 if the claim is not the current one: stop the work. Also ON001 to ON004, ON008, ON010; 40001 above READ COMMITTED.';
