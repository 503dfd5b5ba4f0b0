-- How long a token of the scope for this subject lasts: what the caller asks for, or the scope's session length.
CREATE FUNCTION once._token_ttl(p_scope text, p_subject text, p_ttl interval)
RETURNS interval
LANGUAGE plpgsql STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_scope once.scope;
BEGIN
    SELECT * INTO STRICT v_scope FROM once.scope AS s WHERE s.name = p_scope;
    PERFORM once._check_key(p_subject, 'token', v_scope.subject_required);
    IF v_scope.session_length IS NULL THEN
        RAISE EXCEPTION 'scope % issues no tokens', p_scope
            USING ERRCODE = 'ON004',
                  DETAIL = 'Its session length is not declared.',
                  HINT = format('How long may a user sit over a page before submitting it? SELECT once.alter_scope(%L, p_session_length => ''12 hours'');', p_scope);
    ELSIF p_ttl < v_scope.session_length OR p_ttl > interval '1 year' THEN
        RAISE EXCEPTION 'a token must last at least as long as a session, and at most a year, not %', p_ttl
            USING ERRCODE = 'ON004',
                  DETAIL = format('A session of scope %s is %s long; a user who submits at its end would be refused.', p_scope, v_scope.session_length),
                  HINT = 'Leave p_ttl out for a token that lasts as long as a session.';
    END IF;
    RETURN coalesce(p_ttl, v_scope.session_length);
END
$$;

COMMENT ON FUNCTION once._token_ttl(text, text, interval) IS 'checks subject and ttl of a token, and returns how long it lasts';
