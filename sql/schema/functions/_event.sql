-- One line of maintain's report. result is done, waiting (for transactions to end), busy (a lock was not to be had at once),
-- kept (by policy) or missing.
CREATE FUNCTION once._event(p_scope text, p_step text, p_generation integer, p_result text, p_detail text)
RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN jsonb_build_object('scope', p_scope, 'step', p_step, 'generation', p_generation, 'result', p_result, 'detail', p_detail);
END
$$;

COMMENT ON FUNCTION once._event(text, text, integer, text, text) IS 'one line of maintain''s report';
