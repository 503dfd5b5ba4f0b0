-- Creates a scope: its policy, its tables, its first generation and epoch, all in the caller's transaction.
CREATE FUNCTION once.create_scope(
    p_name text,
    p_window interval,
    p_retry_horizon interval,
    p_generations integer DEFAULT 2,
    p_lease interval DEFAULT '1 minute',
    p_max_attempts integer DEFAULT 5,
    p_on_expiry text DEFAULT 'takeover',
    p_max_result_bytes integer DEFAULT 1048576,
    p_subject_required boolean DEFAULT false,
    p_rotate_rows bigint DEFAULT NULL,
    p_archive text DEFAULT 'keep',
    p_session_length interval DEFAULT NULL
)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_scope_id integer;
BEGIN
    PERFORM once._check_scope_name(p_name);
    PERFORM once._check_policy(p_window, p_retry_horizon, p_generations, p_lease, p_max_attempts, p_on_expiry,
                               p_max_result_bytes, p_subject_required, p_rotate_rows, p_archive, p_session_length);
    -- Sequences do not follow a logical switchover: numbers that are taken are passed over.
    LOOP
        v_scope_id := nextval(pg_get_serial_sequence('once.scope', 'scope_id')::regclass);
        EXIT WHEN NOT EXISTS (SELECT FROM once.scope AS s WHERE s.scope_id >= v_scope_id);
    END LOOP;
    INSERT INTO once.scope (scope_id, name, dedup_window, retry_horizon, generations, lease, max_attempts, on_expiry,
                            max_result_bytes, subject_required, rotate_rows, archive, session_length)
    OVERRIDING SYSTEM VALUE
    VALUES (v_scope_id, p_name, p_window, p_retry_horizon, p_generations, p_lease, p_max_attempts, p_on_expiry,
            p_max_result_bytes, p_subject_required, p_rotate_rows, p_archive, p_session_length)
        ON CONFLICT (name) DO NOTHING;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'scope % exists', p_name
            USING ERRCODE = 'ON006',
                  DETAIL = 'It has its own policy and keys, and is left as it is.',
                  HINT = 'Change its policy with once.alter_scope.';
    END IF;

    EXECUTE format('CREATE SEQUENCE once_data.%I', p_name || '_fence');
    -- The seed of the key locks is a sequence, because a function reads it as fast as a constant and, unlike the text of a
    -- function, it can be kept from other roles: who knows it could hold up a key by taking its lock.
    EXECUTE format('CREATE SEQUENCE once_data.%I MINVALUE %s', p_name || '_seed', -9223372036854775807);
    EXECUTE format('CREATE TABLE once_data.%I (LIKE once.claim_template INCLUDING COMMENTS) PARTITION BY LIST (generation)', p_name);
    PERFORM setval(format('once_data.%I', p_name || '_seed')::regclass, hashtextextended(gen_random_uuid()::text, 0) / 2);
    PERFORM once._create_generation(v_scope_id, 1);
    PERFORM once._publish_epoch(v_scope_id, 1, '{}');
    PERFORM once._switch_epoch(v_scope_id, clock_timestamp());
END
$$;

COMMENT ON FUNCTION once.create_scope(text, interval, interval, integer, interval, integer, text, integer, boolean, bigint, text, interval) IS
'Creates a scope.
p_name: 1 to 32 characters, a lower-case letter first, then lower-case letters, digits and underscores.
p_window: how long a finished key is recognised, at least; must exceed p_retry_horizon, how long any caller may still retry.
p_generations: generations a window; more of them drop sooner after the window, and every claim probes one more table.
p_lease, p_max_attempts, p_on_expiry (takeover or park): policy of leased claims, see once.claim_leased.
p_max_result_bytes: a larger result is not stored, only its size.
p_subject_required: every key belongs to a subject; cannot be changed later.
p_rotate_rows: rotate also when the open generation holds this many rows.
p_archive: keep (no generation is retired: no key is ever forgotten, and every claim probes every generation there is) or discard
(a generation past its window is dropped).
p_session_length: how long a user may sit over a page before submitting it; a token of once.issue_token lasts at least as long. NULL: the scope issues no tokens.
Raises ON004 (policy), ON005 (name), ON006 (exists). The owner of pgonce may call it, and whoever is granted it.';
