-- Changes the policy of a scope, at once.
CREATE FUNCTION once.alter_scope(
    p_name text,
    p_window interval DEFAULT NULL,
    p_retry_horizon interval DEFAULT NULL,
    p_generations integer DEFAULT NULL,
    p_lease interval DEFAULT NULL,
    p_max_attempts integer DEFAULT NULL,
    p_on_expiry text DEFAULT NULL,
    p_max_result_bytes integer DEFAULT NULL,
    p_rotate_rows bigint DEFAULT NULL,
    p_archive text DEFAULT NULL,
    p_session_length interval DEFAULT NULL
)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_scope once.scope := once._lock_scope(p_name);
BEGIN
    v_scope.dedup_window := coalesce(p_window, v_scope.dedup_window);
    v_scope.retry_horizon := coalesce(p_retry_horizon, v_scope.retry_horizon);
    v_scope.generations := coalesce(p_generations, v_scope.generations);
    v_scope.lease := coalesce(p_lease, v_scope.lease);
    v_scope.max_attempts := coalesce(p_max_attempts, v_scope.max_attempts);
    v_scope.on_expiry := coalesce(p_on_expiry, v_scope.on_expiry);
    v_scope.max_result_bytes := coalesce(p_max_result_bytes, v_scope.max_result_bytes);
    v_scope.rotate_rows := CASE WHEN p_rotate_rows = 0 THEN NULL ELSE coalesce(p_rotate_rows, v_scope.rotate_rows) END;
    v_scope.archive := coalesce(p_archive, v_scope.archive);
    v_scope.session_length := coalesce(p_session_length, v_scope.session_length);
    PERFORM once._check_policy(v_scope.dedup_window, v_scope.retry_horizon, v_scope.generations, v_scope.lease, v_scope.max_attempts,
                               v_scope.on_expiry, v_scope.max_result_bytes, v_scope.subject_required, v_scope.rotate_rows, v_scope.archive, v_scope.session_length);
    UPDATE once.scope AS s
       SET dedup_window = v_scope.dedup_window, retry_horizon = v_scope.retry_horizon, generations = v_scope.generations,
           lease = v_scope.lease, max_attempts = v_scope.max_attempts, on_expiry = v_scope.on_expiry,
           max_result_bytes = v_scope.max_result_bytes, rotate_rows = v_scope.rotate_rows, archive = v_scope.archive,
           session_length = v_scope.session_length
     WHERE s.scope_id = v_scope.scope_id;
END
$$;

COMMENT ON FUNCTION once.alter_scope(text, interval, interval, integer, interval, integer, text, integer, bigint, text, interval) IS
'Changes the policy of a scope, at once; parameters as in once.create_scope, NULL leaves a value as it is.
p_rotate_rows: 0 turns rotation by rows off. A shorter window forgets keys earlier. Whether a subject is required cannot be changed.
Raises ON001, ON004. The owner of pgonce may call it, and whoever is granted it.';
