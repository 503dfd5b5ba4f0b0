-- scopes, generations, in_flight, holders.
\ir _begin.sql
SELECT no_plan();

SELECT columns_are('once', 'scopes', ARRAY['name', 'dedup_window', 'retry_horizon', 'generations', 'rotate_rows', 'lease', 'max_attempts', 'on_expiry', 'max_result_bytes',
    'subject_required', 'archive', 'session_length', 'epoch', 'open_generation', 'open_since', 'live_generations', 'rows_estimate', 'bytes', 'created_at', 'maintained_at']);
SELECT columns_are('once', 'generations', ARRAY['scope', 'generation', 'state', 'opened_at', 'sealed_at', 'drained_at', 'droppable_since', 'droppable_from', 'unlinked_at',
    'detached_at', 'dropped_at', 'carried', 'rows_estimate', 'bytes']);
SELECT columns_are('once', 'in_flight', ARRAY['scope', 'generation', 'subject', 'key', 'state', 'attempt', 'claim_id', 'claimed_at', 'lease_until']);
SELECT columns_are('once', 'holders', ARRAY['scope', 'step', 'generation', 'epoch', 'pid', 'gid', 'since', 'role', 'application_name', 'state', 'query']);

SELECT is_empty('SELECT * FROM once.in_flight', 'nothing is in flight');
SELECT is_empty('SELECT * FROM once.holders', 'nobody is waited for');
SELECT is_empty('SELECT * FROM once.claim_result UNION ALL SELECT * FROM once.claim_result', 'a row shape is empty');
SELECT results_eq('SELECT scope COLLATE "default", generation, state, opened_at IS NOT NULL, sealed_at, drained_at, droppable_from, dropped_at, carried, bytes > 0 FROM once.generations',
                  $$VALUES ('s', 1, 'open', true, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, 0::bigint, true)$$, 'a new scope''s generation');

SELECT once.create_scope('b', '2 hours', '1 hour');
SELECT claim_id AS id FROM once.claim('s', 'done') \gset
SELECT once.complete('s', 'done', :'id', 1);
SELECT once.claim('s', 'open', p_subject => 'u'), once.claim('b', 'parked');
UPDATE once_data.b SET state = 'parked', lease_until = '2030-01-01';
SELECT results_eq('SELECT scope, generation, subject COLLATE "default", key COLLATE "default", state::text, attempt, lease_until FROM once.in_flight ORDER BY scope',
                  $$VALUES ('b', 1, '', 'parked', 'parked', 1, '2030-01-01'::timestamptz), ('s', 1, 'u', 'open', 'in_progress', 1, NULL)$$, 'what is in flight');

-- A generation's life, in one transaction, whose own locks nobody waits for.
SELECT once.alter_scope('s', p_archive => 'discard');
-- One step, but for those that only concern epochs, which other sessions may hold back.
CREATE FUNCTION pg_temp.go(p_later interval) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz := (SELECT opened_at FROM once.generations WHERE scope = 's' AND generation = 1) + p_later;
    v_step text;
BEGIN
    LOOP
        SELECT string_agg(e ->> 'step', ',') INTO v_step FROM once._maintain_step('s', v_now) AS e WHERE e ->> 'result' = 'done';
        IF v_step IS DISTINCT FROM 'forget epoch' THEN
            RETURN coalesce(v_step, '');
        END IF;
    END LOOP;
END
$$;
SELECT is(pg_temp.go('1 hour'), 'rotate', 'rotate');
SELECT results_eq($$SELECT generation, state FROM once.generations WHERE scope = 's' ORDER BY 1$$, $$VALUES (1, 'open'), (2, 'published')$$, 'published');
SELECT is((SELECT epoch FROM once.scopes WHERE name = 's'), 1::bigint, 'not current yet');
SELECT is(pg_temp.go('1 hour'), 'switch', 'switch');
SELECT results_eq($$SELECT generation, state FROM once.generations WHERE scope = 's' ORDER BY 1$$, $$VALUES (1, 'sealed'), (2, 'open')$$, 'sealed');
SELECT results_eq($$SELECT epoch, open_generation, live_generations, open_since FROM once.scopes WHERE name = 's'$$, $$VALUES (2::bigint, 2, 2::bigint, (SELECT opened_at + interval '1 hour' FROM once.generations WHERE scope = 's' AND generation = 1))$$,
                  'the scope has another open generation');
SELECT is(pg_temp.go('1 hour'), 'drain', 'drain');
SELECT results_eq($$SELECT state, droppable_from, droppable_since FROM once.generations WHERE scope = 's' AND generation = 1$$,
                  $$SELECT 'drained', opened_at + interval '3 hours', NULL::timestamptz FROM once.generations WHERE scope = 's' AND generation = 1$$, 'drained, droppable when its window is over');
SELECT is(pg_temp.go('2 hours 59 minutes'), '', 'not yet');
SELECT is(pg_temp.go('3 hours'), 'carry over', 'carry over');
SELECT is((SELECT carried FROM once.generations WHERE scope = 's' AND generation = 1), 1::bigint, 'one row is carried over');
SELECT results_eq($$SELECT generation, key COLLATE "default", state::text FROM once.in_flight WHERE scope = 's'$$, $$VALUES (2, 'open', 'parked')$$, 'and parked');

SELECT * FROM finish();
ROLLBACK;
