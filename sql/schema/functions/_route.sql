-- Checks a scope, subject and key, and returns the epoch to call: what the fence says now, whatever the caller's snapshot.
CREATE FUNCTION once._route(p_scope text, p_subject text, p_key text)
RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_fence regclass;
    v_epoch bigint;
    v_function text;
BEGIN
    IF octet_length(p_key) BETWEEN 1 AND 255 AND octet_length(p_subject) <= 255 THEN
        NULL;
    ELSE
        PERFORM once._check_key(p_subject, p_key, false);
    END IF;
    IF p_scope ~ '^[a-z][a-z0-9_]{0,31}$' THEN
        v_fence := to_regclass('once_data.' || quote_ident(p_scope || '_fence'));
    END IF;
    IF v_fence IS NULL THEN
        RAISE EXCEPTION 'unknown scope: %', coalesce(quote_literal(left(p_scope, 64)), 'NULL')
            USING ERRCODE = 'ON001',
                  HINT = 'Create it with once.create_scope, or see the scopes there are: SELECT * FROM once.scopes.';
    END IF;
    IF NOT has_sequence_privilege(v_fence, 'SELECT') THEN
        RAISE EXCEPTION 'permission denied for scope %', p_scope
            USING ERRCODE = '42501',
                  HINT = format('The owner of pgonce can run: SELECT once.grant_scope(%L, %L);', p_scope, current_user);
    END IF;
    v_epoch := pg_sequence_last_value(v_fence);
    v_function := 'once_data.' || quote_ident(p_scope || '_claim_e' || v_epoch);
    IF to_regproc(v_function) IS NULL THEN
        -- In a long transaction this session may remember that there was no such function. To look up a name that nobody asked
        -- for before makes it take notice of what others committed since.
        PERFORM to_regproc('once_data.' || quote_ident('no ' || gen_random_uuid()));
    END IF;
    IF v_epoch IS NULL OR to_regproc(v_function) IS NULL THEN
        RAISE EXCEPTION 'scope % has no functions for epoch %', p_scope, coalesce(v_epoch::text, 'NULL')
            USING ERRCODE = 'ON010',
                  DETAIL = 'The fence and the published epochs are apart, as after a restore or a logical switchover.',
                  HINT = format('Run: CALL once.maintain(%L);', p_scope);
    END IF;
    RETURN v_epoch;
END
$$;

COMMENT ON FUNCTION once._route(text, text, text) IS 'checks scope, subject and key, and returns the epoch to call';
