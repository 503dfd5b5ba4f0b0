-- What a claim is told about the row it met.
CREATE FUNCTION once._answer(p_row once.claim_template, p_fingerprint bytea)
RETURNS once.claim_result
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_fingerprint <> p_row.fingerprint THEN
        RETURN ROW('mismatch'::once.outcome, p_row.attempt, NULL, NULL, NULL, NULL, NULL, NULL, p_row.finished_at)::once.claim_result;
    END IF;
    CASE p_row.state
    WHEN 'done' THEN
        RETURN ROW('replay'::once.outcome, p_row.attempt, p_row.claim_id, NULL,
                   p_row.result, p_row.content_type, p_row.meta, p_row.omitted_bytes, p_row.finished_at)::once.claim_result;
    WHEN 'failed' THEN
        RETURN ROW('failed'::once.outcome, p_row.attempt, p_row.claim_id, NULL,
                   p_row.result, p_row.content_type, p_row.meta, p_row.omitted_bytes, p_row.finished_at)::once.claim_result;
    WHEN 'parked' THEN
        RETURN ROW('parked'::once.outcome, p_row.attempt, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::once.claim_result;
    ELSE
        RETURN ROW('in_progress'::once.outcome, p_row.attempt, NULL,
                   greatest(coalesce(p_row.lease_until - clock_timestamp(), interval '1 second'), interval '0'),
                   NULL, NULL, NULL, NULL, NULL)::once.claim_result;
    END CASE;
END
$$;

COMMENT ON FUNCTION once._answer(once.claim_template, bytea) IS 'what a claim is told about the row it met';
