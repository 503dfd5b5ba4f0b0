-- claim: outcomes and bad input.
\ir _begin.sql
SELECT no_plan();
SELECT once.create_scope('t', '2 hours', '1 hour', p_subject_required => true);

SELECT results_eq($$SELECT outcome::text, attempt, claim_id IS NOT NULL, retry_after, result, finished_at FROM once.claim('s', 'k', p_fingerprint => 'f')$$,
                  $$VALUES ('fresh', 1, true, NULL::interval, NULL::bytea, NULL::timestamptz)$$, 'a key that nobody had');
SELECT results_eq($$SELECT outcome::text, attempt, claim_id, retry_after, result FROM once.claim('s', 'k', p_fingerprint => 'f')$$,
                  $$VALUES ('in_progress', 1, NULL::uuid, interval '1 second', NULL::bytea)$$, 'that somebody has');
SELECT results_eq($$SELECT outcome::text, attempt, claim_id, retry_after, result FROM once.claim('s', 'k', p_fingerprint => 'g')$$,
                  $$VALUES ('mismatch', 1, NULL::uuid, NULL::interval, NULL::bytea)$$, 'that somebody has for another request');
SELECT is((once.claim('s', 'k')).outcome, 'in_progress', 'no fingerprint is compared with none');
SELECT claim_id AS id FROM once.lookup('s', 'k') \gset
SELECT once.complete('s', 'k', :'id', 1, 'result', 'text/plain', '{"status": 200}');
SELECT results_eq($$SELECT outcome::text, attempt, claim_id::text, retry_after, result, content_type, meta, omitted_bytes, finished_at IS NOT NULL
                      FROM once.claim('s', 'k', p_fingerprint => 'f')$$,
                  format($$VALUES ('replay', 1, %L, NULL::interval, 'result'::bytea, 'text/plain', '{"status": 200}'::jsonb, NULL::bigint, true)$$, :'id'),
                  'that is done');
SELECT results_eq($$SELECT outcome::text, claim_id, result, content_type, meta, finished_at IS NOT NULL FROM once.claim('s', 'k', p_fingerprint => 'g')$$,
                  $$VALUES ('mismatch', NULL::uuid, NULL::bytea, NULL::text, NULL::jsonb, true)$$, 'another request learns nothing of the result');
SELECT is((once.claim('s', 'k')).outcome, 'replay', 'a claim without a fingerprint is not compared');

SELECT claim_id AS id FROM once.claim('s', 'f', p_fingerprint => 'f') \gset
SELECT once.fail('s', 'f', :'id', 1, 'no', 'text/plain', '{"status": 402}');
SELECT results_eq($$SELECT outcome::text, claim_id::text, result, content_type, meta, finished_at IS NOT NULL FROM once.claim('s', 'f', p_fingerprint => 'f')$$,
                  format($$VALUES ('failed', %L, 'no'::bytea, 'text/plain', '{"status": 402}'::jsonb, true)$$, :'id'), 'that has failed');

SELECT outcome FROM once.claim('s', 'p') \gset
UPDATE once_data.s SET state = 'parked' WHERE key = 'p';
SELECT results_eq($$SELECT outcome::text, attempt, claim_id, retry_after, result FROM once.claim('s', 'p')$$,
                  $$VALUES ('parked', 1, NULL::uuid, NULL::interval, NULL::bytea)$$, 'that is parked');

SELECT outcome FROM once.claim('s', 'leased') \gset
UPDATE once_data.s SET lease_until = now() + interval '1 hour' WHERE key = 'leased';
SELECT ok((once.claim('s', 'leased')).retry_after BETWEEN interval '59 minutes' AND interval '1 hour', 'whose lease runs: retry when it ends');
UPDATE once_data.s SET lease_until = now() - interval '1 hour' WHERE key = 'leased';
SELECT is((once.claim('s', 'leased')).retry_after, interval '0', 'whose lease is over: retry now');

-- p_done.
SELECT is((once.claim('s', 'd', p_fingerprint => 'f', p_done => true)).outcome, 'fresh', 'a claim that writes the finished row');
SELECT results_eq($$SELECT outcome::text, result FROM once.claim('s', 'd', p_fingerprint => 'f', p_done => true)$$, $$VALUES ('replay', NULL::bytea)$$, 'is done');
SELECT is((once.claim('s', 'd', p_fingerprint => 'g')).outcome, 'mismatch', 'and keeps its fingerprint');
SELECT is((once.claim('s', 'd2', p_defer => true, p_done => true)).outcome, 'fresh', 'done wins over deferred');
SELECT is((once.claim('s', 'd2')).outcome, 'replay', 'and is written at once');

-- NULL where a value has a default.
SELECT is((once.claim('s', 'n1', NULL, '', NULL, NULL, NULL)).outcome, 'fresh', 'NULL for every option');
SELECT is((once.lookup('s', 'n1')).state, 'in_progress', 'is neither deferred nor done');
SELECT is((once.claim('s', 'n2', '')).outcome, 'fresh', 'an empty fingerprint');
SELECT is((once.claim('s', 'n2', 'x')).outcome, 'mismatch', 'is one');

-- Keys are bytes.
SELECT is((once.claim('s', k)).outcome, 'fresh', 'a key: ' || left(k, 20))
  FROM unnest(ARRAY[' ', 'K', 'k ', 'é', 'e' || U&'\0301', '東京', '😀', '''', '"', '%s', '\', '$1', '; DROP TABLE once.scope; --', 'NULL', repeat('x', 255), repeat('é', 127) || 'x']) AS k;
SELECT is((once.claim('s', k)).outcome, 'in_progress', 'the same key: ' || left(k, 20))
  FROM unnest(ARRAY[' ', 'K', 'é', '東京', '; DROP TABLE once.scope; --', repeat('x', 255)]) AS k;
SELECT is((once.claim('s', 'k', p_subject => u)).outcome, 'fresh', 'a subject: ' || left(u, 20))
  FROM unnest(ARRAY[' ', 'k', 'é', '''', repeat('x', 255)]) AS u;
SELECT is((once.claim('s', 'ab', p_subject => 'c')).outcome, 'fresh', 'subject and key');
SELECT is((once.claim('s', 'b', p_subject => 'ca')).outcome, 'fresh', 'are not one text');

SELECT pg_temp.is_refused(format('SELECT %s(%s)', f, args), 'ON002', f || ': ' || what)
  FROM (VALUES ('''s'', NULL', 'a NULL key'), ('''s'', ''''', 'an empty key'), ('''s'', repeat(''x'', 256)', 'a key of 256 bytes'),
               ('''s'', repeat(''é'', 128)', 'a key of 128 characters, 256 bytes'), ('''s'', repeat(''x'', 10000000)', 'a key of 10 MB')) AS bad(args, what),
       unnest(ARRAY['once.claim', 'once.lookup']) AS f;
SELECT pg_temp.is_refused(format('SELECT %s(''s'', ''new'', p_subject => %s)', f, args), 'ON003', f || ': ' || what)
  FROM (VALUES ('NULL', 'a NULL subject'), ('repeat(''x'', 256)', 'a subject of 256 bytes')) AS bad(args, what), unnest(ARRAY['once.claim', 'once.lookup']) AS f;
SELECT pg_temp.is_refused($$SELECT once.claim('t', 'k')$$, 'ON003', 'a scope that requires a subject');
SELECT pg_temp.is_refused($$SELECT once.claim('t', 'k', p_defer => true)$$, 'ON003', 'deferred too');
SELECT pg_temp.is_refused($$SELECT once.claim_many('t', '{k}')$$, 'ON003', 'in a batch too');
SELECT is((once.claim('t', 'k', p_subject => 'u')).outcome, 'fresh', 'has one now');

SELECT is((SELECT code FROM pg_temp.refusal(format('SELECT %s(%L, ''k'')', f, n))), 'ON001', f || ': no scope ' || coalesce(left(n, 40), 'NULL'))
  FROM unnest(ARRAY[NULL, '', 'nobody', 'S', 's ', '"s"', 's_g1', 's_fence', 's_seed', 'é', repeat('s', 32), repeat('s', 33), repeat('s', 64),
                    's''; DROP TABLE once.scope; --', 's_claim_e1', 'once_data.s', '%I']) AS n, unnest(ARRAY['once.claim', 'once.lookup']) AS f;
SELECT isnt((SELECT hint FROM pg_temp.refusal($$SELECT once.claim('nobody', 'k')$$)), '', 'with a hint');
SELECT pg_temp.is_refused($$SELECT once.claim('s', 'w', p_wait => 'soon')$$, '22007', 'a wait that is no interval');

-- In the middle of work: a refusal costs a savepoint, no more.
SELECT is((once.claim('s', 'deferred', p_defer => true)).outcome, 'fresh', 'a deferred claim');
SELECT pg_temp.is_refused($$SELECT once.claim('s', 'deferred')$$, 'ON009', 'cannot be claimed again');
SELECT pg_temp.is_refused($$SELECT once.claim('s', 'deferred', p_defer => true)$$, 'ON009', 'nor deferred again');

SELECT * FROM finish();
ROLLBACK;
