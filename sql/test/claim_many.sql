-- claim_many.
\ir _begin.sql
SELECT no_plan();

SELECT claim_id AS id FROM once.claim('s', 'done') \gset
SELECT once.complete('s', 'done', :'id', 1, 'result', 'text/plain', '{"a": 1}');
SELECT outcome FROM once.claim('s', 'open', p_fingerprint => 'f') \gset

SELECT results_eq(
    $$SELECT position, key, outcome::text, attempt, claim_id IS NOT NULL, retry_after, result, content_type, meta, finished_at IS NOT NULL
        FROM once.claim_many('s', ARRAY['z', 'done', 'open', 'a', 'z'], ARRAY[NULL, NULL, 'g', 'f', NULL]::bytea[])$$,
    $$VALUES (1, 'z', 'fresh', 1, true, NULL::interval, NULL::bytea, NULL::text, NULL::jsonb, false),
             (2, 'done', 'replay', 1, true, NULL, 'result', 'text/plain', '{"a": 1}', true),
             (3, 'open', 'mismatch', 1, false, NULL, NULL, NULL, NULL, false),
             (4, 'a', 'fresh', 1, true, NULL, NULL, NULL, NULL, false),
             (5, 'z', 'in_progress', 1, false, interval '1 second', NULL, NULL, NULL, false)$$,
    'one row a key, in the order given');
SELECT is((once.claim('s', 'a', 'g')).outcome, 'mismatch', 'a fingerprint of a batch is kept');
SELECT results_eq($$SELECT outcome::text FROM once.claim_many('s', ARRAY['a'], p_subject => 'u')$$, $$VALUES ('fresh')$$, 'keys of another subject');
SELECT is_empty($$SELECT * FROM once.claim_many('s', '{}')$$, 'no keys, no rows');
SELECT is_empty($$SELECT * FROM once.claim_many('s', '{}', '{}')$$, 'and no fingerprints');
SELECT is((SELECT count(*) FROM once.claim_many('s', ARRAY(SELECT 'm' || i FROM generate_series(1, 1000) AS i)) WHERE outcome = 'fresh'), 1000::bigint, 'a thousand keys');
SELECT is((SELECT count(DISTINCT claim_id) FROM once.claim_many('s', ARRAY(SELECT 'n' || i FROM generate_series(1, 100) AS i))), 100::bigint, 'each its own claim');

SELECT pg_temp.is_refused(format('SELECT once.claim_many(%s)', args), code, what)
  FROM (VALUES ('''s'', NULL', 'ON004', 'no list'),
               ('''s'', ''{{a},{b}}''', 'ON004', 'a list of lists'),
               ('''s'', ''[0:1]={a,b}''', 'ON004', 'a list that begins elsewhere'),
               ('''s'', ''{a,b}'', ''{a}''', 'ON004', 'too few fingerprints'),
               ('''s'', ''{a}'', ''{a,b}''', 'ON004', 'too many fingerprints'),
               ('''s'', ''{a}'', ''{}''', 'ON004', 'no fingerprints'),
               ('''s'', ''{a,b}'', ''{{a},{b}}''', 'ON004', 'fingerprints in lists'),
               ('''s'', ''{new,NULL}''', 'ON002', 'a NULL among the keys'),
               ('''s'', ''{new,""}''', 'ON002', 'an empty key among them'),
               ('''s'', ARRAY[''new'', repeat(''x'', 256)]', 'ON002', 'a long key among them'),
               ('''s'', ''{new}'', p_subject => NULL', 'ON003', 'a NULL subject'),
               ('''s'', ''{new}'', p_subject => repeat(''x'', 256)', 'ON003', 'a long subject'),
               ('''s'', ARRAY(SELECT ''o'' || i FROM generate_series(1, 1001) AS i)', 'ON011', 'more than a thousand keys')) AS bad(args, code, what);
SELECT is((SELECT code FROM pg_temp.refusal(format('SELECT once.claim_many(%L, ''{a}'')', n))), 'ON001', 'no scope ' || coalesce(n, 'NULL'))
  FROM unnest(ARRAY[NULL, '', 'nobody', 'S']) AS n;
SELECT is((once.claim('s', 'new')).outcome, 'fresh', 'nothing of a refused batch is claimed');

SELECT outcome FROM once.claim('s', 'd', p_defer => true) \gset
SELECT pg_temp.is_refused($$SELECT once.claim_many('s', '{c,d,e}')$$, 'ON009', 'a deferred key among them');

SELECT * FROM finish();
ROLLBACK;
