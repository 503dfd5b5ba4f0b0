-- complete, fail, release, and lookup of what they leave.
\ir _begin.sql
SELECT no_plan();
SELECT once.create_scope('small', '2 hours', '1 hour', p_max_result_bytes => 2000);
SELECT once.create_scope('t', '2 hours', '1 hour', p_subject_required => true);

CREATE FUNCTION pg_temp.fresh(p_key text, p_scope text DEFAULT 's', p_subject text DEFAULT '', p_defer boolean DEFAULT false) RETURNS uuid LANGUAGE sql AS
$$SELECT claim_id FROM once.claim(p_scope, p_key, p_subject => p_subject, p_fingerprint => 'f', p_defer => p_defer) WHERE outcome = 'fresh'$$;

SELECT is_empty($$SELECT * FROM once.lookup('s', 'k')$$, 'a key that nobody knows');
SELECT pg_temp.fresh('k') AS id \gset
SELECT results_eq($$SELECT state::text, generation, attempt, claim_id::text, fingerprint, result, claimed_at IS NOT NULL, finished_at, lease_until FROM once.lookup('s', 'k')$$,
                  format($$VALUES ('in_progress', 1, 1, %L, 'f'::bytea, NULL::bytea, true, NULL::timestamptz, NULL::timestamptz)$$, :'id'), 'a key in progress');

-- Whose claim it is.
SELECT pg_temp.is_refused(format('SELECT once.%s(''s'', ''k'', %s)', f, args), code, f || ': ' || what)
  FROM (VALUES ('gen_random_uuid(), 1', 'ON007', 'another claim'),
               (format('%L, 2', :'id'), 'ON007', 'a later attempt'),
               (format('%L, 0', :'id'), 'ON007', 'an earlier attempt'),
               (format('%L, NULL', :'id'), 'ON004', 'no attempt'),
               ('NULL, 1', 'ON004', 'no claim'),
               (format('%L, 1, p_subject => ''u''', :'id'), 'ON007', 'another subject'),
               (format('%L, 1, p_subject => NULL', :'id'), 'ON003', 'a NULL subject'),
               (format('%L, 1, p_subject => repeat(''x'', 256)', :'id'), 'ON003', 'a long subject')) AS bad(args, code, what),
       unnest(ARRAY['complete', 'fail', 'release']) AS f;
SELECT pg_temp.is_refused(format('SELECT once.%s(''s'', %s, %L, 1)', f, key, :'id'), code, f || ': ' || what)
  FROM (VALUES ('NULL', 'ON002', 'a NULL key'), ('''''', 'ON002', 'an empty key'), ('repeat(''x'', 256)', 'ON002', 'a long key'), ('''other''', 'ON007', 'another key'))
         AS bad(key, code, what), unnest(ARRAY['complete', 'fail', 'release']) AS f;
SELECT is((SELECT code FROM pg_temp.refusal(format('SELECT once.%s(%L, ''k'', %L, 1)', f, n, :'id'))), 'ON001', f || ': no scope ' || coalesce(n, 'NULL'))
  FROM unnest(ARRAY[NULL, '', 'nobody', 'S', 's_g1']) AS n, unnest(ARRAY['complete', 'fail', 'release']) AS f;
SELECT pg_temp.is_refused(format('SELECT once.%s(''s'', ''k'', %L, 1, %s)', f, :'id', args), 'ON004', f || ': ' || what)
  FROM (VALUES ('p_content_type => repeat(''x'', 256)', 'a long content type'), ('p_meta => to_jsonb(repeat(''x'', 16384))', 'large metadata')) AS bad(args, what),
       unnest(ARRAY['complete', 'fail']) AS f;

-- What is settled stays so.
SELECT lives_ok(format($$SELECT once.complete('s', 'k', %L, 1, p_meta => to_jsonb(repeat('x', 16382)), p_content_type => repeat('x', 255))$$, :'id'), 'the largest metadata');
SELECT results_eq($$SELECT state::text, result, omitted_bytes, octet_length(meta::text), finished_at IS NOT NULL FROM once.lookup('s', 'k')$$,
                  $$VALUES ('done', NULL::bytea, NULL::bigint, 16384, true)$$, 'a claim that is done');
SELECT pg_temp.is_refused(format('SELECT once.%s(''s'', ''k'', %L, 1)', f, :'id'), 'ON007', 'case 04: ' || f || ': a claim that is done')
  FROM unnest(ARRAY['complete', 'fail', 'release']) AS f;
SELECT pg_temp.fresh('f') AS id \gset
SELECT lives_ok(format($$SELECT once.fail('s', 'f', %L, 1, 'no')$$, :'id'), 'fail');
SELECT results_eq($$SELECT state::text, result FROM once.lookup('s', 'f')$$, $$VALUES ('failed', 'no'::bytea)$$, 'a claim that has failed');
SELECT pg_temp.is_refused(format('SELECT once.%s(''s'', ''f'', %L, 1)', f, :'id'), 'ON007', 'case 04: ' || f || ': a claim that has failed')
  FROM unnest(ARRAY['complete', 'fail', 'release']) AS f;
SELECT pg_temp.fresh('r') AS id \gset
SELECT lives_ok(format($$SELECT once.release('s', 'r', %L, 1)$$, :'id'), 'release');
SELECT is_empty($$SELECT * FROM once.lookup('s', 'r')$$, 'a key that was given back');
SELECT pg_temp.is_refused(format('SELECT once.%s(''s'', ''r'', %L, 1)', f, :'id'), 'ON007', f || ': a claim that was given back')
  FROM unnest(ARRAY['complete', 'fail', 'release']) AS f;
SELECT isnt(pg_temp.fresh('r'), :'id', 'the next claim of the key is another one');
SELECT pg_temp.is_refused(format('SELECT once.complete(''s'', ''r'', %L, 1)', :'id'), 'ON007', 'the first claim ends nothing of the second, though its attempt is the same');

-- A parked claim can be settled by who has it.
SELECT pg_temp.fresh('p') AS id \gset
UPDATE once_data.s SET state = 'parked' WHERE key = 'p';
SELECT lives_ok(format($$SELECT once.complete('s', 'p', %L, 1)$$, :'id'), 'a parked claim');
SELECT is((once.lookup('s', 'p')).state, 'done', 'is done now');

-- Results.
SELECT pg_temp.fresh('empty') AS id \gset
SELECT once.complete('s', 'empty', :'id', 1, '');
SELECT results_eq($$SELECT result, omitted_bytes FROM once.claim('s', 'empty')$$, $$VALUES (''::bytea, NULL::bigint)$$, 'an empty result is one');
SELECT pg_temp.fresh(k, 'small', p_defer => k LIKE 'deferred%') AS id, k AS key FROM unnest(ARRAY['fits']) AS k \gset
SELECT once.complete('small', 'fits', :'id', 1, decode(repeat('ab', 2000), 'hex'));
SELECT results_eq($$SELECT octet_length(result), omitted_bytes FROM once.claim('small', 'fits')$$, $$VALUES (2000, NULL::bigint)$$, 'a result as large as the limit');
SELECT pg_temp.fresh('large', 'small') AS id \gset
SELECT once.complete('small', 'large', :'id', 1, decode(repeat('ab', 2001), 'hex'), 'text/plain', '{"a": 1}');
SELECT results_eq($$SELECT outcome::text, result, omitted_bytes, content_type, meta FROM once.claim('small', 'large')$$,
                  $$VALUES ('replay', NULL::bytea, 2001::bigint, 'text/plain', '{"a": 1}'::jsonb)$$, 'a result beyond the limit leaves its size');
SELECT pg_temp.fresh('large refusal', 'small') AS id \gset
SELECT once.fail('small', 'large refusal', :'id', 1, decode(repeat('ab', 3000), 'hex'));
SELECT results_eq($$SELECT outcome::text, result, omitted_bytes FROM once.claim('small', 'large refusal')$$, $$VALUES ('failed', NULL::bytea, 3000::bigint)$$, 'a refusal too');
SELECT pg_temp.fresh('deferred', 'small', p_defer => true) AS id \gset
SELECT once.complete('small', 'deferred', :'id', 1, decode(repeat('ab', 2001), 'hex'), p_fingerprint => 'f');
SELECT results_eq($$SELECT result, omitted_bytes, fingerprint FROM once.lookup('small', 'deferred')$$, $$VALUES (NULL::bytea, 2001::bigint, 'f'::bytea)$$, 'a deferred one too');

-- Deferred claims are refused the same.
SELECT pg_temp.fresh('d', p_defer => true) AS id \gset
SELECT is_empty($$SELECT * FROM once.lookup('s', 'd')$$, 'a deferred claim is not written yet');
SELECT pg_temp.is_refused(format('SELECT once.complete(''s'', ''d'', %s)', args), code, 'deferred: ' || what)
  FROM (VALUES ('gen_random_uuid(), 1', 'ON007', 'another claim'), (format('%L, NULL', :'id'), 'ON004', 'no attempt'),
               (format('%L, 1, p_content_type => repeat(''x'', 256)', :'id'), 'ON004', 'a long content type')) AS bad(args, code, what);
SELECT pg_temp.is_refused(format('SELECT once.complete(''s'', ''d'', %L, 2)', :'id'), 'ON007', 'deferred: another attempt');
SELECT lives_ok(format($$SELECT once.complete('s', 'd', %L, 1)$$, :'id'), 'complete of a deferred claim');
SELECT pg_temp.is_refused(format('SELECT once.%s(''s'', ''d'', %L, 1)', f, :'id'), 'ON007', f || ': a deferred claim that is done')
  FROM unnest(ARRAY['complete', 'fail', 'release']) AS f;
SELECT is((once.claim('s', 'd')).outcome, 'replay', 'it stays done');

SELECT * FROM finish();
ROLLBACK;
