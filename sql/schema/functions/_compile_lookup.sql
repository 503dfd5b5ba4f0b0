-- Text of CREATE FUNCTION once_data.<scope>_lookup_e<E>: reads a key's row, whatever its state. No row: not known.
-- A row with a NULL state says that the epoch is over: route again.
CREATE FUNCTION once._compile_lookup(p_scope text, p_epoch bigint, p_generation integer, p_sealed integer[])
RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN once._fill($template$
CREATE FUNCTION once_data.{lookup}(p_subject text, p_key text)
RETURNS SETOF once.lookup_result
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $body$
DECLARE
    v_again once.lookup_result;
BEGIN
    IF pg_sequence_last_value({fence}) <> {epoch} THEN
        RETURN NEXT v_again;
        RETURN;
    END IF;
    RETURN QUERY
        SELECT r.state, r.generation, r.claim_id, r.attempt, r.fingerprint, r.result, r.content_type, r.meta,
               r.omitted_bytes, r.claimed_at, r.finished_at, r.lease_until, r.checkpoints, r.note
          FROM ({rows}) AS r;
    -- No row may also mean that, since the fence was read, the row was moved to a generation that this epoch does not know.
    IF NOT FOUND AND pg_sequence_last_value({fence}) <> {epoch} THEN
        RETURN NEXT v_again;
    END IF;
END
$body$
$template$, p_scope, p_epoch, p_generation, p_sealed);
END
$$;

COMMENT ON FUNCTION once._compile_lookup(text, bigint, integer, integer[]) IS 'text of an epoch''s lookup function';
