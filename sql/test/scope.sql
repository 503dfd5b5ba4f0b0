-- create_scope, alter_scope, drop_scope: policies and names.
\ir _begin.sql
SELECT no_plan();

SELECT results_eq(
    $$SELECT name, dedup_window, retry_horizon, generations, rotate_rows, lease, max_attempts, on_expiry, max_result_bytes, subject_required, archive,
             epoch, open_generation, live_generations FROM once.scopes$$,
    $$VALUES ('s' COLLATE "C", interval '2 hours', interval '1 hour', 2, NULL::bigint, interval '1 minute', 5, 'takeover', 1048576, false, 'keep',
             1::bigint, 1, 1::bigint)$$,
    'the policy of a scope by default');
SELECT lives_ok(
    $$SELECT once.create_scope('all_of_it', p_window => '7 days', p_retry_horizon => '3 days', p_generations => 12, p_lease => '5 minutes', p_max_attempts => 1,
        p_on_expiry => 'park', p_max_result_bytes => 1024, p_subject_required => true, p_rotate_rows => 1000, p_archive => 'discard')$$,
    'a scope with everything stated');
SELECT results_eq(
    $$SELECT generations, rotate_rows, lease, max_attempts, on_expiry, max_result_bytes, subject_required, archive FROM once.scopes WHERE name = 'all_of_it'$$,
    $$VALUES (12, 1000::bigint, interval '5 minutes', 1, 'park', 1024, true, 'discard')$$, 'has it');

-- Names.
SELECT lives_ok(format('SELECT once.create_scope(%L, ''2 hours'', ''1 hour'')', n), 'a name: ' || n)
  FROM unnest(ARRAY['a', 'pay_callback', 'select', 'a1', 'a_', rpad('x', 32, 'y'), 's_claim', 'g1', 's_g', 's_fences', 'user', 's_claim_e1']) AS n;
SELECT lives_ok(format('SELECT once.claim(%L, ''k'')', n), 'a scope to claim in: ' || n)
  FROM unnest(ARRAY['a', 'select', rpad('x', 32, 'y'), 's_claim', 'user', 's_claim_e1']) AS n;
SELECT pg_temp.is_refused(format('SELECT once.create_scope(%L, ''2 hours'', ''1 hour'')', n), 'ON005', 'no name: ' || coalesce(left(n, 70), 'NULL'))
  FROM unnest(ARRAY[NULL, '', ' ', 'A', 'Pay', '1a', '_a', 'a-b', 'a.b', 'a b', 'a"b', 'a''b', 'é', 'aé', 'ａ', 'a' || chr(10), 'a;b', 'a$b', '%s', '"a"',
                    rpad('x', 33, 'x'), rpad('x', 63, 'x'), rpad('x', 64, 'x'), repeat('x', 100000),
                    'a; DROP SCHEMA once CASCADE', 'a'' || (SELECT 1) || ''', 's'');--',
                    's_g1', 's_g42', 's_fence', 's_seed', 's_pk', 's_g1_open_idx', 's_open_idx']) AS n;
SELECT pg_temp.is_refused($$SELECT once.create_scope('s', '2 hours', '1 hour')$$, 'ON006', 'a scope that exists');

-- Policies, the same when a scope is made and when it is changed.
CREATE TEMPORARY TABLE bad (args text, what text);
INSERT INTO bad VALUES
    ('p_window => ''1 hour'', p_retry_horizon => ''1 hour''', 'a window as long as the horizon'),
    ('p_window => ''1 hour'', p_retry_horizon => ''2 hours''', 'a window shorter than the horizon'),
    ('p_window => ''0'', p_retry_horizon => ''1 hour''', 'no window'),
    ('p_window => ''-1 hour'', p_retry_horizon => ''-2 hours''', 'both negative'),
    ('p_window => ''2 hours'', p_retry_horizon => ''0''', 'no horizon'),
    ('p_window => ''2 hours'', p_retry_horizon => ''-1 second''', 'a negative horizon'),
    ('p_window => ''500 ms'', p_retry_horizon => ''1 ms''', 'a window below a second'),
    ('p_window => ''101 years'', p_retry_horizon => ''1 hour''', 'a window beyond a life'),
    ('p_window => ''1 month -30 days'', p_retry_horizon => ''1 ms''', 'a window that is nothing, in two units'),
    ('p_window => ''2 hours'', p_retry_horizon => ''1 hour'', p_generations => 0', 'no generation'),
    ('p_window => ''2 hours'', p_retry_horizon => ''1 hour'', p_generations => -1', 'fewer than none'),
    ('p_window => ''2 hours'', p_retry_horizon => ''1 hour'', p_generations => 13', 'too many generations'),
    ('p_window => ''2 hours'', p_retry_horizon => ''1 hour'', p_lease => ''0''', 'no lease'),
    ('p_window => ''2 hours'', p_retry_horizon => ''1 hour'', p_lease => ''-1 minute''', 'a negative lease'),
    ('p_window => ''2 hours'', p_retry_horizon => ''1 hour'', p_max_attempts => 0', 'no attempt'),
    ('p_window => ''2 hours'', p_retry_horizon => ''1 hour'', p_on_expiry => ''panic''', 'an unknown end of a lease'),
    ('p_window => ''2 hours'', p_retry_horizon => ''1 hour'', p_on_expiry => ''''', 'an empty end of a lease'),
    ('p_window => ''2 hours'', p_retry_horizon => ''1 hour'', p_max_result_bytes => 1023', 'results too small'),
    ('p_window => ''2 hours'', p_retry_horizon => ''1 hour'', p_max_result_bytes => 67108865', 'results too large'),
    ('p_window => ''2 hours'', p_retry_horizon => ''1 hour'', p_rotate_rows => -1', 'a negative number of rows'),
    ('p_window => ''2 hours'', p_retry_horizon => ''1 hour'', p_archive => ''shred''', 'an unknown archive');
SELECT pg_temp.is_refused(format('SELECT once.create_scope(''bad'', %s)', args), 'ON004', 'case 30: create_scope refuses ' || what) FROM bad;
SELECT pg_temp.is_refused(format('SELECT once.alter_scope(''s'', %s)', args), 'ON004', 'case 30: alter_scope refuses ' || what) FROM bad;
SELECT pg_temp.is_refused(format('SELECT once.create_scope(''bad'', %s)', args), 'ON004', 'create_scope wants it stated: ' || args)
  FROM unnest(ARRAY['NULL, ''1 hour''', '''2 hours'', NULL', 'NULL, NULL']) AS args;
SELECT pg_temp.is_refused(format('SELECT once.create_scope(''bad'', ''2 hours'', ''1 hour'', %s => NULL)', p), 'ON004', 'create_scope refuses NULL: ' || p)
  FROM unnest(ARRAY['p_generations', 'p_lease', 'p_max_attempts', 'p_on_expiry', 'p_max_result_bytes', 'p_subject_required', 'p_archive']) AS p;
SELECT pg_temp.is_refused($$SELECT once.create_scope('bad', '2 hours', '1 hour', p_rotate_rows => 0)$$, 'ON004', 'create_scope refuses to rotate at no rows');
SELECT matches((SELECT hint FROM pg_temp.refusal($$SELECT once.create_scope('bad', '1 hour', '2 hours')$$)), '02:00:00.*01:00:00',
               'the hint names horizon and window');
SELECT matches((SELECT hint FROM pg_temp.refusal($$SELECT once.alter_scope('s', p_retry_horizon => '5 hours')$$)), '05:00:00.*02:00:00',
               'the one that was not changed included');

-- Change.
SELECT lives_ok($$SELECT once.alter_scope('s', p_window => '3 hours', p_lease => '2 minutes', p_rotate_rows => 10)$$, 'alter_scope');
SELECT results_eq($$SELECT dedup_window, retry_horizon, lease, rotate_rows, max_attempts FROM once.scopes WHERE name = 's'$$,
                  $$VALUES (interval '3 hours', interval '1 hour', interval '2 minutes', 10::bigint, 5)$$, 'changes what is given and nothing else');
SELECT lives_ok($$SELECT once.alter_scope('s', p_rotate_rows => 0)$$, 'alter_scope turns rotation by rows off');
SELECT is((SELECT rotate_rows FROM once.scopes WHERE name = 's'), NULL, 'and it is off');

-- Unknown scopes.
SELECT pg_temp.is_refused(format('SELECT once.%s', c), 'ON001', 'no such scope: ' || c)
  FROM unnest(ARRAY['alter_scope(''nobody'')', 'alter_scope(NULL)', 'alter_scope(''S'')', 'drop_scope(''nobody'')', 'drop_scope(NULL)', 'drop_scope(NULL, true)',
                    'grant_scope(''nobody'', ''postgres'')', 'revoke_scope(NULL, ''postgres'')']) AS c;

-- Drop.
SELECT lives_ok($$SELECT once.drop_scope('all_of_it')$$, 'an empty scope is dropped');
SELECT is_empty($$SELECT oid::regclass FROM pg_class WHERE relnamespace = 'once_data'::regnamespace AND relname LIKE 'all\_of\_it%'$$, 'with its relations');
SELECT is_empty($$SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = 'once_data'::regnamespace AND proname LIKE 'all\_of\_it%'$$, 'and functions');
SELECT lives_ok($$SELECT once.claim('s', 'k')$$, 'a key that is unfinished');
SELECT pg_temp.is_refused($$SELECT once.drop_scope('s')$$, 'ON012', 'keeps its scope');
SELECT pg_temp.is_refused($$SELECT once.drop_scope('s', NULL)$$, 'ON012', 'NULL is no consent');
SELECT lives_ok($$SELECT once.drop_scope('s', p_discard_keys => true)$$, 'unless it may go');
SELECT is((pg_temp.refusal($$SELECT once.claim('s', 'k')$$)).code, 'ON001', 'the scope is gone');

SELECT * FROM finish();
ROLLBACK;
