-- Ends a claim as done. The result is what every later duplicate is given.
CREATE FUNCTION once.complete(
    p_scope text,
    p_key text,
    p_claim_id uuid,
    p_attempt integer,
    p_result bytea DEFAULT NULL,
    p_content_type text DEFAULT NULL,
    p_meta jsonb DEFAULT NULL,
    p_subject text DEFAULT '',
    p_fingerprint bytea DEFAULT NULL
)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM once._settle(p_scope, p_key, p_claim_id, p_attempt, 'done', p_result, p_content_type, p_meta, p_subject, p_fingerprint);
END
$$;

COMMENT ON FUNCTION once.complete(text, text, uuid, integer, bytea, text, jsonb, text, bytea) IS
'Ends a claim as done and stores its result. p_claim_id and p_attempt are those that the fresh claim returned.
A result larger than the scope''s max_result_bytes is not stored; its size is, as omitted_bytes.
p_fingerprint: only for a deferred claim, whose row is written now: the same as was given to claim.
Raises ON007 if the claim is not the current one (then nothing has changed), ON001 to ON004, ON008, ON010; 40001 above READ COMMITTED.';
