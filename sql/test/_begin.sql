-- Included by every file: one transaction, which is rolled back, as the owner of pgonce, with a scope s; and how to look at
-- refusals.
BEGIN;
SELECT nspowner::regrole AS owner FROM pg_namespace WHERE nspname = 'once' \gset
SET LOCAL ROLE :owner;
SET LOCAL search_path = tap, pg_catalog;
SET LOCAL client_min_messages = warning;

-- What the transaction has changed so far, sequences and locks included.
CREATE FUNCTION pg_temp.everything() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_all text;
    v_table regclass;
    v_text text;
BEGIN
    SELECT string_agg(x.t, E'\n' ORDER BY x.t) INTO v_all
      FROM (SELECT concat('r ', oid::regclass, relacl, relkind) AS t FROM pg_class WHERE relnamespace IN ('once'::regnamespace, 'once_data'::regnamespace)
            UNION ALL
            SELECT concat('f ', oid::regprocedure, proacl) FROM pg_proc WHERE pronamespace IN ('once'::regnamespace, 'once_data'::regnamespace)
            UNION ALL
            SELECT concat('s ', oid::regclass, pg_sequence_last_value(oid)) FROM pg_class WHERE relkind = 'S' AND relnamespace = 'once_data'::regnamespace
            UNION ALL
            SELECT concat('l ', classid, ' ', objid) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()
            UNION ALL
            SELECT concat('g ', n, current_setting(n, true)) FROM unnest('{once.deferred,lock_timeout,search_path}'::text[]) AS n) AS x;
    FOR v_table IN
        SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace IN ('once'::regnamespace, 'once_data'::regnamespace) ORDER BY oid
    LOOP
        EXECUTE format('SELECT string_agg(t::text, E''\n'' ORDER BY t::text) FROM %s AS t', v_table) INTO v_text;
        v_all := concat(v_all, E'\n', v_table, E'\n', v_text);
    END LOOP;
    RETURN v_all;
END
$$;

-- Runs a statement, as another role if one is given, and says how it was refused: the SQLSTATE, and what is missing of DETAIL
-- and HINT in an error of our own. 'accepted' if it was not.
CREATE FUNCTION pg_temp.refusal(p_sql text, p_role text DEFAULT NULL, OUT code text, OUT message text, OUT detail text, OUT hint text) LANGUAGE plpgsql AS $$
DECLARE
    v_owner text := current_user;
BEGIN
    BEGIN
        IF p_role IS NOT NULL THEN
            EXECUTE format('SET LOCAL ROLE %I', p_role);
        END IF;
        EXECUTE p_sql;
        IF p_role IS NOT NULL THEN
            EXECUTE format('SET LOCAL ROLE %I', v_owner);
        END IF;
        code := 'accepted';
    EXCEPTION WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    END;
END
$$;

-- Asserts that a statement is refused with a code, with DETAIL and HINT, and that nothing has changed.
CREATE FUNCTION pg_temp.is_refused(p_sql text, p_code text, p_what text, p_role text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_before text := pg_temp.everything();
    v_how record;
BEGIN
    SELECT * INTO v_how FROM pg_temp.refusal(p_sql, p_role);
    RETURN is(concat(v_how.code,
                     CASE WHEN v_how.code LIKE 'ON%' AND v_how.detail = '' THEN ', no DETAIL' END,
                     CASE WHEN v_how.code LIKE 'ON%' AND v_how.hint = '' THEN ', no HINT' END,
                     CASE WHEN pg_temp.everything() <> v_before THEN ', something has changed' END),
              p_code, p_what);
END
$$;

SELECT once.create_scope('s', '2 hours', '1 hour');
