-- What every object has in common: pinned search paths, privileges, comments; and the signatures of the interface.
\ir _begin.sql
SELECT no_plan();

CREATE TEMPORARY TABLE routine AS
SELECT p.oid, p.oid::regprocedure::text AS name, p.proname, p.prokind, p.prosecdef, p.proconfig, p.proacl, p.proowner, p.provolatile, p.pronamespace
  FROM pg_proc AS p WHERE p.pronamespace IN ('once'::regnamespace, 'once_data'::regnamespace);

SELECT cmp_ok((SELECT count(*) FROM routine WHERE pronamespace = 'once_data'::regnamespace), '=', 6::bigint, 'an epoch has six functions');

SELECT is_empty($$SELECT name FROM routine WHERE prokind = 'f'
                   AND NOT coalesce(proconfig @> ARRAY['search_path=pg_catalog, pg_temp'], false)$$,
                'every function pins its search_path, pg_temp last');
SELECT results_eq($$SELECT name FROM routine WHERE proconfig IS NULL$$,
                  $$VALUES ('once.maintain(text,interval,timestamp with time zone,jsonb)')$$,
                  'the one procedure, which commits, cannot');
SELECT is_empty($$SELECT name FROM routine WHERE proacl IS NULL OR EXISTS (SELECT FROM aclexplode(proacl) AS a WHERE a.grantee <> proowner)$$,
                'nobody but the owner may execute anything');
SELECT is_empty($$SELECT c.oid::regclass FROM pg_class AS c, LATERAL aclexplode(c.relacl) AS a
                   WHERE c.relnamespace IN ('once'::regnamespace, 'once_data'::regnamespace) AND a.grantee <> c.relowner$$,
                'nobody but the owner may read or write any table, view or sequence');
SELECT is_empty($$SELECT n.nspname FROM pg_namespace AS n, LATERAL aclexplode(n.nspacl) AS a
                   WHERE n.nspname IN ('once', 'once_data') AND a.grantee <> n.nspowner$$,
                'nobody but the owner may use the schemas');

SELECT set_eq($$SELECT proname::text FROM routine WHERE prosecdef$$,
              ARRAY['create_scope', 'alter_scope', 'drop_scope', 'grant_scope', 'revoke_scope', '_maintain_step', '_scope_names', '_lease', '_token_ttl',
                    's_claim_e1', 's_settle_e1', 's_lookup_e1', 's_takeover_e1', 's_renew_e1', 's_token_e1'],
              'the functions that run as their owner');
SELECT is_empty($$SELECT name FROM routine WHERE pronamespace = 'once_data'::regnamespace
                   AND NOT proconfig @> ARRAY['enable_seqscan=off', 'jit=off']$$,
                'the functions of an epoch read by the index, and do not compile');

SELECT is_empty($$SELECT name FROM routine WHERE pronamespace = 'once'::regnamespace AND obj_description(oid, 'pg_proc') IS NULL$$,
                'every function has a comment');
SELECT is_empty($$SELECT oid::regclass FROM pg_class WHERE relnamespace = 'once'::regnamespace AND relkind IN ('r', 'v')
                   AND obj_description(oid, 'pg_class') IS NULL$$,
                'every table and view has a comment');
SELECT is_empty($$SELECT oid::regtype FROM pg_type WHERE typnamespace = 'once'::regnamespace AND typtype NOT IN ('c') AND typcategory <> 'A'
                   AND obj_description(oid, 'pg_type') IS NULL$$,
                'every type has a comment');
SELECT is_empty($$SELECT nspname FROM pg_namespace WHERE nspname IN ('once', 'once_data') AND obj_description(oid, 'pg_namespace') IS NULL$$,
                'every schema has a comment');
SELECT is_empty($$SELECT name FROM routine WHERE pronamespace = 'once'::regnamespace AND proname !~ '^_'
                   GROUP BY name, proname HAVING (SELECT count(*) FROM routine AS r WHERE r.proname = routine.proname) > 1$$,
                'nothing is overloaded');

SELECT results_eq(
    $$SELECT (proname || '(' || pg_get_function_arguments(oid) || ')' || coalesce(' ' || pg_get_function_result(oid), '') || ' ' || provolatile::text) COLLATE "default"
        FROM routine WHERE pronamespace = 'once'::regnamespace AND proname !~ '^_' ORDER BY proname COLLATE "C"$$,
    ARRAY[
    $$abandon(p_scope text, p_key text, p_claim_id uuid, p_attempt integer, p_reason text, p_subject text DEFAULT ''::text) void v$$,
    $$alter_scope(p_name text, p_window interval DEFAULT NULL::interval, p_retry_horizon interval DEFAULT NULL::interval, p_generations integer DEFAULT NULL::integer, p_lease interval DEFAULT NULL::interval, p_max_attempts integer DEFAULT NULL::integer, p_on_expiry text DEFAULT NULL::text, p_max_result_bytes integer DEFAULT NULL::integer, p_rotate_rows bigint DEFAULT NULL::bigint, p_archive text DEFAULT NULL::text, p_session_length interval DEFAULT NULL::interval) void v$$,
    $$checkpoint(p_scope text, p_key text, p_claim_id uuid, p_attempt integer, p_step text, p_value jsonb, p_subject text DEFAULT ''::text, p_lease interval DEFAULT NULL::interval) void v$$,
    $$claim(p_scope text, p_key text, p_fingerprint bytea DEFAULT NULL::bytea, p_subject text DEFAULT ''::text, p_wait interval DEFAULT NULL::interval, p_defer boolean DEFAULT false, p_done boolean DEFAULT false) once.claim_result v$$,
    $$claim_leased(p_scope text, p_key text, p_fingerprint bytea DEFAULT NULL::bytea, p_subject text DEFAULT ''::text, p_wait interval DEFAULT NULL::interval, p_lease interval DEFAULT NULL::interval) once.claim_result v$$,
    $$claim_many(p_scope text, p_keys text[], p_fingerprints bytea[] DEFAULT NULL::bytea[], p_subject text DEFAULT ''::text, p_wait interval DEFAULT NULL::interval) SETOF once.claim_many_result v$$,
    $$complete(p_scope text, p_key text, p_claim_id uuid, p_attempt integer, p_result bytea DEFAULT NULL::bytea, p_content_type text DEFAULT NULL::text, p_meta jsonb DEFAULT NULL::jsonb, p_subject text DEFAULT ''::text, p_fingerprint bytea DEFAULT NULL::bytea) void v$$,
    $$create_scope(p_name text, p_window interval, p_retry_horizon interval, p_generations integer DEFAULT 2, p_lease interval DEFAULT '00:01:00'::interval, p_max_attempts integer DEFAULT 5, p_on_expiry text DEFAULT 'takeover'::text, p_max_result_bytes integer DEFAULT 1048576, p_subject_required boolean DEFAULT false, p_rotate_rows bigint DEFAULT NULL::bigint, p_archive text DEFAULT 'keep'::text, p_session_length interval DEFAULT NULL::interval) void v$$,
    $$current_epoch(p_scope text) bigint v$$,
    $$drop_scope(p_name text, p_discard_keys boolean DEFAULT false) void v$$,
    $$fail(p_scope text, p_key text, p_claim_id uuid, p_attempt integer, p_result bytea DEFAULT NULL::bytea, p_content_type text DEFAULT NULL::text, p_meta jsonb DEFAULT NULL::jsonb, p_subject text DEFAULT ''::text, p_fingerprint bytea DEFAULT NULL::bytea) void v$$,
    $$grant_scope(p_name text, p_role text) void v$$,
    $$guard_attempts(p_table regclass, p_column name) void v$$,
    $$heartbeat(p_scope text, p_key text, p_claim_id uuid, p_attempt integer, p_subject text DEFAULT ''::text, p_lease interval DEFAULT NULL::interval) void v$$,
    $$issue_token(p_scope text, p_subject text, p_ttl interval DEFAULT NULL::interval) text v$$,
    $$lookup(p_scope text, p_key text, p_subject text DEFAULT ''::text) SETOF once.lookup_result v$$,
    $$maintain(IN p_scope text DEFAULT NULL::text, IN p_wait interval DEFAULT '00:00:03'::interval, IN p_now timestamp with time zone DEFAULT NULL::timestamp with time zone, INOUT p_report jsonb DEFAULT NULL::jsonb) v$$,
    $$redeem_token(p_scope text, p_token text, p_subject text, p_wait interval DEFAULT NULL::interval) once.claim_result v$$,
    $$release(p_scope text, p_key text, p_claim_id uuid, p_attempt integer, p_subject text DEFAULT ''::text) void v$$,
    $$revoke_scope(p_name text, p_role text) void v$$,
    $$token_key(p_token text) text i$$],
    'the interface');

-- Row shapes are part of the interface too.
SELECT columns_are('once', 'claim_result', ARRAY['outcome', 'attempt', 'claim_id', 'retry_after', 'result', 'content_type', 'meta', 'omitted_bytes', 'finished_at']);
SELECT columns_are('once', 'claim_many_result', ARRAY['position', 'key', 'outcome', 'attempt', 'claim_id', 'retry_after', 'result', 'content_type', 'meta', 'omitted_bytes', 'finished_at']);
SELECT columns_are('once', 'lookup_result', ARRAY['state', 'generation', 'claim_id', 'attempt', 'fingerprint', 'result', 'content_type', 'meta', 'omitted_bytes', 'claimed_at', 'finished_at', 'lease_until', 'checkpoints', 'note']);
SELECT enum_has_labels('once', 'outcome', ARRAY['fresh', 'replay', 'in_progress', 'mismatch', 'failed', 'parked', 'redeemed', 'unknown', 'foreign', 'expired']);
SELECT enum_has_labels('once', 'claim_state', ARRAY['in_progress', 'done', 'failed', 'parked', 'tombstone', 'issued']);

-- A leaf.
SELECT is_partition_of('once_data', 's_g1', 'once_data', 's', 'a generation is a partition of its scope');
SELECT col_is_pk('once_data', 's_g1', ARRAY['subject', 'key'], 'one row a subject and key');
SELECT is((SELECT reloptions FROM pg_class WHERE oid = 'once_data.s_g1'::regclass), ARRAY['vacuum_truncate=off'], 'vacuum does not truncate it');

SELECT is((SELECT partdefid FROM pg_partitioned_table WHERE partrelid = 'once_data.s'::regclass), 0::oid, 'case 36: a scope has no default partition');

SELECT * FROM finish();
ROLLBACK;
