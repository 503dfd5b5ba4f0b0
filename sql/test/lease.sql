-- Leased claims: claim_leased, heartbeat, checkpoint, abandon.
\ir _begin.sql
SELECT no_plan();
SELECT once.create_scope('careful', '2 hours', '1 hour', p_on_expiry => 'park', p_lease => '5 minutes');
SELECT once.create_scope('twice', '2 hours', '1 hour', p_max_attempts => 2);

CREATE FUNCTION pg_temp.lease(p_scope text, p_key text, VARIADIC p_outcome text[] DEFAULT '{fresh}') RETURNS uuid LANGUAGE sql AS
$$SELECT claim_id FROM once.claim_leased(p_scope, p_key, 'f') WHERE outcome::text = ANY (p_outcome)$$;
-- The lease of a key runs out.
CREATE FUNCTION pg_temp.expire(p_scope text, p_key text) RETURNS void LANGUAGE plpgsql AS
$$BEGIN EXECUTE format('UPDATE once_data.%I SET lease_until = clock_timestamp() - interval ''1 second'' WHERE key = %L', p_scope, p_key); END$$;

-- The claim and its lease.
SELECT pg_temp.lease('s', 'k') AS id \gset
SELECT results_eq($$SELECT state::text, attempt, claim_id::text, lease_until - claimed_at BETWEEN '59 s' AND '61 s', checkpoints, note FROM once.lookup('s', 'k')$$,
                  format($$VALUES ('in_progress', 1, %L, true, NULL::jsonb, NULL::text)$$, :'id'), 'a leased claim has the lease of its scope');
SELECT results_eq($$SELECT outcome::text, attempt, claim_id, retry_after BETWEEN '50 s' AND '60 s' FROM once.claim_leased('s', 'k')$$,
                  $$VALUES ('in_progress', 1, NULL::uuid, true)$$, 'whoever else asks is told when the lease ends');
SELECT is((once.claim_leased('s', 'k', 'g')).outcome, 'mismatch', 'another fingerprint');
SELECT is((once.claim('s', 'k')).outcome, 'in_progress', 'a claim without a lease meets it too');
SELECT ok((SELECT lease_until - claimed_at BETWEEN '9 s' AND '11 s' FROM once.claim_leased('s', 'short', p_lease => '10 s'), once.lookup('s', 'short')), 'a lease of one''s own');

-- Heartbeats, by who has it.
SELECT pg_temp.expire('s', 'k');
SELECT lives_ok(format($$SELECT once.heartbeat('s', 'k', %L, 1)$$, :'id'), 'a lease that is over can be extended while nobody has taken over');
SELECT ok((once.lookup('s', 'k')).lease_until > clock_timestamp() + interval '50 s', 'by the lease of the scope');
SELECT lives_ok(format($$SELECT once.heartbeat('s', 'k', %L, 1, p_lease => '1 hour')$$, :'id'), 'a heartbeat of one''s own length');
SELECT ok((once.lookup('s', 'k')).lease_until > clock_timestamp() + interval '50 min', 'as long as that');
SELECT pg_temp.is_refused(format('SELECT once.%s', replace(f, 'CLAIM', args)), code, f || ': ' || what)
  FROM (VALUES ('gen_random_uuid(), 1', 'ON007', 'another claim'),
               (format('%L, 2', :'id'), 'ON007', 'a later attempt'),
               (format('%L, NULL', :'id'), 'ON004', 'no attempt'),
               ('NULL, 1', 'ON004', 'no claim')) AS bad(args, code, what),
       unnest(ARRAY[$$heartbeat('s', 'k', CLAIM)$$, $$checkpoint('s', 'k', CLAIM, 'step', '1')$$, $$abandon('s', 'k', CLAIM, 'why')$$]) AS f;
SELECT pg_temp.is_refused(format('SELECT once.%s', replace(f, 'CLAIM', format('%L, 1', :'id'))), code, f)
  FROM (VALUES ($$heartbeat('s', 'other', CLAIM)$$, 'ON007'), ($$heartbeat('s', '', CLAIM)$$, 'ON002'), ($$heartbeat('s', 'k', CLAIM, 'u')$$, 'ON007'),
               ($$heartbeat('s', 'k', CLAIM, NULL)$$, 'ON003'), ($$checkpoint('s', 'k', CLAIM, NULL, '1')$$, 'ON004'), ($$checkpoint('s', 'k', CLAIM, '', '1')$$, 'ON004'),
               ($$checkpoint('s', 'k', CLAIM, 'x', to_jsonb(repeat('x', 65535)))$$, 'ON004'),
               ($$heartbeat('s', 'k', CLAIM, p_lease => '0')$$, 'ON004'), ($$heartbeat('s', 'k', CLAIM, p_lease => '-1 s')$$, 'ON004'),
               ($$heartbeat('s', 'k', CLAIM, p_lease => '2 years')$$, 'ON004')) AS bad(f, code);
SELECT pg_temp.is_refused($$SELECT once.claim_leased('s', 'new', p_lease => '0')$$, 'ON004', 'case 14: no time left is not "no lease"');
SELECT is((SELECT code FROM pg_temp.refusal(format('SELECT once.%s', f))), 'ON001', f || ': no such scope')
  FROM unnest(ARRAY[$$claim_leased('nobody', 'k')$$, $$heartbeat('nobody', 'k', gen_random_uuid(), 1)$$, $$abandon(NULL, 'k', gen_random_uuid(), 1, NULL)$$]) AS f;
SELECT claim_id AS plain FROM once.claim('s', 'plain') \gset
SELECT pg_temp.is_refused(format($$SELECT once.heartbeat('s', 'plain', %L, 1)$$, :'plain'), 'ON007', 'a claim without a lease has none to extend');
SELECT is((once.claim_leased('s', 'plain')).outcome, 'in_progress', 'nor is it taken over');

-- Takeover.
SELECT pg_temp.expire('s', 'k');
SELECT is((once.claim_leased('s', 'k', 'g')).outcome, 'mismatch', 'another fingerprint takes nothing over');
SELECT is((once.claim('s', 'k')).retry_after, interval '0', 'a claim without a lease takes nothing over');
SELECT claim_id AS id2, attempt FROM once.claim_leased('s', 'k', 'f') \gset
SELECT is(:attempt, 2, 'the next attempt');
SELECT isnt(:'id2'::text, :'id'::text, 'is another claim');
SELECT pg_temp.is_refused(format('SELECT once.%s', replace(f, 'CLAIM', format('%L, %s', :'id', a))), 'ON007', f || ': the earlier attempt can do nothing')
  FROM unnest(ARRAY[1, 2]) AS a,
       unnest(ARRAY[$$heartbeat('s', 'k', CLAIM)$$, $$checkpoint('s', 'k', CLAIM, 'step', '1')$$, $$abandon('s', 'k', CLAIM, 'why')$$,
                    $$complete('s', 'k', CLAIM)$$, $$fail('s', 'k', CLAIM)$$, $$release('s', 'k', CLAIM)$$]) AS f;
SELECT is((once.claim_leased('s', 'k')).outcome, 'in_progress', 'the next attempt has a lease of its own');

SELECT is((pg_temp.refusal(format($$SELECT once.release('s', 'k', %L, 2)$$, :'id'))).code, 'ON007', 'case 16: only the current claim gives the key back');
SELECT is((once.lookup('s', 'k')).claim_id, :'id2'::uuid, 'which is still there');

-- Time.
SELECT is_empty($$SELECT p.oid::regprocedure FROM pg_proc AS p
                   WHERE p.oid IN (SELECT once._interface()) AND 'timestamptz'::regtype = ANY (p.proargtypes::oid[])$$,
                'case 18: no client''s clock has a say: nobody passes a time');
SELECT pg_sleep(0.05);
SELECT isnt(pg_temp.lease('s', 'clock'), NULL, 'a lease late in a transaction');
SELECT ok((once.lookup('s', 'clock')).lease_until > now() + interval '60.05 s', 'case 18: begins by the clock, not with the transaction');

-- Checkpoints.
SELECT lives_ok(format($$SELECT once.checkpoint('s', 'k', %L, 2, 'charge', '{"id": 7}')$$, :'id2'), 'a step');
SELECT lives_ok(format($$SELECT once.checkpoint('s', 'k', %L, 2, 'ship', NULL)$$, :'id2'), 'a step without a result');
SELECT lives_ok(format($$SELECT once.checkpoint('s', 'k', %L, 2, 'charge', '{"id": 8}')$$, :'id2'), 'a step again');
SELECT is((once.lookup('s', 'k')).checkpoints, '{"charge": {"id": 7}, "ship": null}', 'keeps its first result');
SELECT pg_temp.expire('s', 'k');
SELECT pg_temp.lease('s', 'k') AS id3 \gset
SELECT is((once.lookup('s', 'k')).checkpoints, '{"charge": {"id": 7}, "ship": null}', 'a takeover keeps the steps');
SELECT lives_ok(format($$SELECT once.complete('s', 'k', %L, 3, 'r')$$, :'id3'), 'the current attempt completes');
SELECT results_eq($$SELECT state::text, attempt, result, checkpoints, lease_until FROM once.lookup('s', 'k')$$,
                  $$VALUES ('done', 3, 'r'::bytea, NULL::jsonb, NULL::timestamptz)$$, 'which ends lease and steps');
SELECT results_eq($$SELECT outcome::text, result FROM once.claim_leased('s', 'k')$$, $$VALUES ('replay', 'r'::bytea)$$, 'and is replayed');

-- Abandoned, in a scope that takes over.
SELECT pg_temp.lease('twice', 'k') AS id \gset
SELECT lives_ok(format($$SELECT once.abandon('twice', 'k', %L, 1, repeat('x', 2000))$$, :'id'), 'abandon');
SELECT results_eq($$SELECT state::text, note = repeat('x', 1000), lease_until <= clock_timestamp() FROM once.lookup('twice', 'k')$$, $$VALUES ('in_progress', true, true)$$, 'ends the lease');
SELECT lives_ok(format($$SELECT once.heartbeat('twice', 'k', %L, 1)$$, :'id'), 'which whoever has it may still take back');
SELECT lives_ok(format($$SELECT once.abandon('twice', 'k', %L, 1, 'no answer')$$, :'id'), 'abandon again');
SELECT pg_temp.lease('twice', 'k') AS id \gset
SELECT isnt(:'id'::text, '', 'and is taken over');
SELECT lives_ok(format($$SELECT once.abandon('twice', 'k', %L, 2, 'no answer either')$$, :'id'), 'abandon the last attempt');
SELECT results_eq($$SELECT state::text, attempt, note, lease_until FROM once.lookup('twice', 'k')$$, $$VALUES ('parked', 2, 'no answer either', NULL::timestamptz)$$, 'which parks the claim');
SELECT is((once.claim_leased('twice', 'k')).outcome, 'parked', 'and says so');
SELECT isnt(pg_temp.lease('twice', 'l'), NULL, 'attempt 1'), pg_temp.expire('twice', 'l');
SELECT isnt(pg_temp.lease('twice', 'l'), NULL, 'attempt 2'), pg_temp.expire('twice', 'l');
SELECT results_eq($$SELECT outcome::text, attempt FROM once.claim_leased('twice', 'l')$$, $$VALUES ('parked', 2)$$, 'attempts are used up');
SELECT is((once.lookup('twice', 'l')).note, 'the lease of attempt 2 ran out', 'and it says why');

-- In a scope that parks.
SELECT pg_temp.lease('careful', 'k') AS id \gset
SELECT ok((once.lookup('careful', 'k')).lease_until > clock_timestamp() + interval '4 min', 'the lease of the scope');
SELECT pg_temp.expire('careful', 'k');
SELECT is((once.claim_leased('careful', 'k', 'g')).outcome, 'mismatch', 'another fingerprint parks nothing');
SELECT is((once.lookup('careful', 'k')).state, 'in_progress', 'as can be seen');
SELECT is((once.claim_leased('careful', 'k')).outcome, 'parked', 'case 13: a lost attempt is not repeated');
SELECT lives_ok(format($$SELECT once.complete('careful', 'k', %L, 1, 'late')$$, :'id'), 'what it says late still counts, since nobody has taken over');
SELECT is((once.claim_leased('careful', 'k')).result, 'late', 'and is replayed');
SELECT pg_temp.lease('careful', 'l') AS id \gset
SELECT lives_ok(format($$SELECT once.abandon('careful', 'l', %L, 1, 'timeout')$$, :'id'), 'abandon');
SELECT results_eq($$SELECT state::text, note FROM once.lookup('careful', 'l')$$, $$VALUES ('parked', 'timeout')$$, 'case 15: parks at once');

-- A guard on a business table.
CREATE TABLE pg_temp.payout (id integer PRIMARY KEY, amount integer, attempt integer, note text);
INSERT INTO pg_temp.payout VALUES (1, 10, NULL), (2, 20, 2);
SELECT lives_ok($$SELECT once.guard_attempts('pg_temp.payout', 'attempt')$$, 'guard_attempts');
SELECT lives_ok($$SELECT once.guard_attempts('pg_temp.payout', 'attempt')$$, 'twice is once');
SELECT lives_ok($$UPDATE pg_temp.payout SET attempt = 1, amount = amount + 1 WHERE id = 1$$, 'the first attempt');
SELECT lives_ok($$UPDATE pg_temp.payout SET attempt = 1, amount = amount + 1 WHERE id = 1$$, 'again');
SELECT lives_ok($$UPDATE pg_temp.payout SET attempt = 3, amount = amount + 1 WHERE id = 1$$, 'a later one');
SELECT lives_ok($$UPDATE pg_temp.payout SET note = 'x' WHERE id = 1$$, 'a write that leaves the attempt alone');
SELECT is((SELECT concat(code, ' ', message) FROM pg_temp.refusal($$UPDATE pg_temp.payout SET attempt = 2, amount = 0 WHERE id = 1$$)),
          'ON007 attempt 2 cannot write a row of payout that attempt 3 wrote', 'case 12: an earlier attempt writes nothing');
SELECT is((pg_temp.refusal($$UPDATE pg_temp.payout SET attempt = NULL, amount = 0$$)).code, 'ON007', 'nor does one without a number');
SELECT results_eq('SELECT id, amount, attempt FROM pg_temp.payout ORDER BY id', 'VALUES (1, 13, 3), (2, 20, 2)', 'as can be seen');
SELECT pg_temp.is_refused($$SELECT once.guard_attempts('pg_temp.payout', 'note')$$, 'ON004', 'a text is no attempt');
SELECT pg_temp.is_refused($$SELECT once.guard_attempts('pg_temp.payout', 'none')$$, 'ON004', 'no such column');
SELECT pg_temp.is_refused($$SELECT once.guard_attempts(NULL, 'attempt')$$, 'ON004', 'no table');

SELECT * FROM finish();
ROLLBACK;
