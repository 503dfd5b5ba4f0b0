-- Refuses a policy with one clear error, before a table's CHECK would. The table repeats the rules for writers that come past here.
CREATE FUNCTION once._check_policy(
    p_window interval, p_retry_horizon interval, p_generations integer, p_lease interval, p_max_attempts integer,
    p_on_expiry text, p_max_result_bytes integer, p_subject_required boolean, p_rotate_rows bigint, p_archive text,
    p_session_length interval
)
RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_problem text;
    v_hint text := 'See COMMENT ON FUNCTION once.create_scope for what each parameter means.';
BEGIN
    CASE
    WHEN p_retry_horizon IS NULL THEN
        v_problem := 'retry_horizon must be stated';
        v_hint := 'How long may any caller still retry? Ask the provider''s retry schedule, the queue''s redelivery and dead-letter replay, and the operators.';
    WHEN p_window IS NULL THEN
        v_problem := 'window must be stated';
        v_hint := format('It must be longer than retry_horizon (%s).', p_retry_horizon);
    WHEN p_retry_horizon <= interval '0' THEN
        v_problem := format('retry_horizon must be positive, not %s', p_retry_horizon);
    WHEN p_window <= p_retry_horizon THEN
        v_problem := format('window (%s) must be longer than retry_horizon (%s)', p_window, p_retry_horizon);
        v_hint := format('A caller that still retries after %s would find its key forgotten after %s: lengthen window, or state a retry_horizon that is true and shorter.', p_retry_horizon, p_window);
    WHEN p_window < interval '1 second' THEN
        v_problem := format('window must be at least a second, not %s', p_window);
    WHEN p_window > interval '100 years' THEN
        v_problem := format('window must be at most 100 years, not %s', p_window);
    WHEN p_generations IS NULL OR p_generations NOT BETWEEN 1 AND 12 THEN
        v_problem := format('generations must be 1 to 12, not %s', coalesce(p_generations::text, 'NULL'));
    WHEN p_lease IS NULL OR p_lease <= interval '0' THEN
        v_problem := format('lease must be positive, not %s', coalesce(p_lease::text, 'NULL'));
    WHEN p_max_attempts IS NULL OR p_max_attempts < 1 THEN
        v_problem := format('max_attempts must be positive, not %s', coalesce(p_max_attempts::text, 'NULL'));
    WHEN p_on_expiry IS NULL OR p_on_expiry NOT IN ('takeover', 'park') THEN
        v_problem := format('on_expiry must be takeover or park, not %s', coalesce(p_on_expiry, 'NULL'));
    WHEN p_max_result_bytes IS NULL OR p_max_result_bytes NOT BETWEEN 1024 AND 67108864 THEN
        v_problem := format('max_result_bytes must be 1024 to 67108864, not %s', coalesce(p_max_result_bytes::text, 'NULL'));
    WHEN p_subject_required IS NULL THEN
        v_problem := 'subject_required must be true or false, not NULL';
    WHEN p_rotate_rows < 1 THEN
        v_problem := format('rotate_rows must be positive or NULL, not %s', p_rotate_rows);
    WHEN p_archive IS NULL OR p_archive NOT IN ('keep', 'discard') THEN
        v_problem := format('archive must be keep or discard, not %s', coalesce(p_archive, 'NULL'));
    WHEN p_session_length <= interval '0' OR p_session_length > interval '1 year' THEN
        v_problem := format('session_length must be positive and at most a year, or NULL, not %s', p_session_length);
    ELSE
        RETURN;
    END CASE;
    RAISE EXCEPTION 'invalid policy: %', v_problem
        USING ERRCODE = 'ON004',
              DETAIL = format('window %s, retry_horizon %s, generations %s, lease %s, max_attempts %s, on_expiry %s, max_result_bytes %s, rotate_rows %s, archive %s, session_length %s.',
                              p_window, p_retry_horizon, p_generations, p_lease, p_max_attempts, p_on_expiry, p_max_result_bytes, p_rotate_rows, p_archive, p_session_length),
              HINT = v_hint;
END
$$;

COMMENT ON FUNCTION once._check_policy(interval, interval, integer, interval, integer, text, integer, boolean, bigint, text, interval) IS
    'raises ON004 unless the policy is sound';
