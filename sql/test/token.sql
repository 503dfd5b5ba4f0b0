-- Tokens: issue_token, redeem_token, token_key.
\ir _begin.sql
SELECT no_plan();
SELECT once.create_scope('forms', '2 hours', '1 hour', p_session_length => '30 minutes');
SELECT once.create_scope('users', '2 hours', '1 hour', p_session_length => '30 minutes', p_subject_required => true);

-- Issuing.
SELECT once.issue_token('forms', 'ann') AS t \gset
SELECT matches(:'t'::text, '^[A-Za-z0-9_-]{43}$', '43 characters that a form or URL takes as they are');
SELECT is((SELECT count(DISTINCT once.issue_token('forms', 'ann')) FROM generate_series(1, 1000)), 1000::bigint, 'no two are the same');
SELECT is(once.token_key('abc'), 'token:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad', 'its key is its SHA-256');
SELECT is_empty(format($$SELECT 1 FROM once_data.forms AS f WHERE strpos(f::text, %L) > 0$$, :'t'), 'the token itself is not stored');
SELECT is_empty($$SELECT 1 FROM once_data.forms AS f WHERE strpos(f::text, 'ann') > 0$$, 'nor is its subject');
SELECT results_eq(format($$SELECT state::text, attempt, lease_until - claimed_at BETWEEN '29 min' AND '31 min' FROM once.lookup('forms', once.token_key(%L))$$, :'t'),
                  $$VALUES ('issued', 0, true)$$, 'a token lasts as long as a session');
SELECT ok((SELECT lease_until > clock_timestamp() + interval '50 min' FROM once.issue_token('forms', 'ann', '1 hour') AS x(t), once.lookup('forms', once.token_key(x.t))), 'or longer, if asked for');
SELECT pg_temp.is_refused($$SELECT once.issue_token('forms', 'ann', '29 minutes')$$, 'ON004', 'but not shorter');
SELECT pg_temp.is_refused($$SELECT once.issue_token('forms', 'ann', '2 years')$$, 'ON004', 'nor for years');
SELECT pg_temp.is_refused($$SELECT once.issue_token('s', 'ann')$$, 'ON004', 'a scope without a session length');
SELECT pg_temp.is_refused($$SELECT once.issue_token('forms', NULL)$$, 'ON003', 'no subject');
SELECT pg_temp.is_refused($$SELECT once.issue_token('users', '')$$, 'ON003', 'an empty subject where one is required');
SELECT is((SELECT code FROM pg_temp.refusal($$SELECT once.issue_token('nobody', 'ann')$$)), 'ON001', 'no such scope');
SELECT pg_temp.is_refused($$SELECT once.create_scope('x', '2 hours', '1 hour', p_session_length => '0')$$, 'ON004', 'a session length that is none');
SELECT pg_temp.is_refused($$SELECT once.alter_scope('forms', p_session_length => '-1 s')$$, 'ON004', 'a negative one');

-- Redeeming.
SELECT results_eq(format($$SELECT outcome::text, attempt FROM once.redeem_token('forms', %L, 'bob')$$, :'t'), $$VALUES ('foreign', 0)$$, 'another subject''s token');
SELECT results_eq($$SELECT outcome::text FROM unnest(ARRAY[NULL, '', 'abc']) AS x, once.redeem_token('forms', x, 'ann')$$, $$VALUES ('unknown'), ('unknown'), ('unknown')$$, 'no token at all');
SELECT is((once.redeem_token('s', :'t', 'ann')).outcome, 'unknown', 'a token of another scope');
SELECT pg_temp.is_refused(format($$SELECT once.redeem_token('forms', %L, NULL)$$, :'t'), 'ON003', 'nobody redeems');
SAVEPOINT before;
SELECT is((once.redeem_token('forms', :'t', 'ann')).outcome, 'redeemed', 'redeemed');
ROLLBACK TO before;
SELECT outcome, attempt, claim_id AS id FROM once.redeem_token('forms', :'t', 'ann') \gset
SELECT is(:'outcome'::text, 'redeemed'::text, 'a redemption that was rolled back leaves the token as it was');
SELECT is(:attempt, 1, 'attempt 1');
SELECT is((once.redeem_token('forms', :'t', 'ann')).outcome, 'in_progress', 'redeemed and not ended');
SELECT is((once.redeem_token('forms', :'t', 'bob')).outcome, 'foreign', 'is still foreign to others');
SELECT lives_ok(format($$SELECT once.complete('forms', once.token_key(%L), %L, 1, 'r')$$, :'t', :'id'), 'complete');
SELECT results_eq(format($$SELECT outcome::text, result, claim_id FROM once.redeem_token('forms', %L, 'ann')$$, :'t'), format($$VALUES ('replay', 'r'::bytea, %L::uuid)$$, :'id'), 'a second click gets the first result');
SELECT results_eq(format($$SELECT outcome::text, result FROM once.redeem_token('forms', %L, 'bob')$$, :'t'), $$VALUES ('foreign', NULL::bytea)$$, 'and nobody else does');
SELECT once.issue_token('users', 'ann') AS t \gset
SELECT claim_id AS id FROM once.redeem_token('users', :'t', 'ann') \gset
SELECT lives_ok(format($$SELECT once.fail('users', once.token_key(%L), %L, 1, 'sold out')$$, :'t', :'id'), 'refused, where a subject is required');
SELECT results_eq(format($$SELECT outcome::text, result FROM once.redeem_token('users', %L, 'ann')$$, :'t'), $$VALUES ('failed', 'sold out'::bytea)$$, 'the refusal stays');
SELECT once.issue_token('forms', 'ann') AS t \gset
SELECT claim_id AS id FROM once.redeem_token('forms', :'t', 'ann') \gset
SELECT lives_ok(format($$SELECT once.release('forms', once.token_key(%L), %L, 1)$$, :'t', :'id'), 'a redemption that is released');
SELECT is((once.redeem_token('forms', :'t', 'ann')).outcome, 'unknown', 'takes the token with it');

-- Expiry.
SELECT once.issue_token('forms', 'ann') AS t \gset
UPDATE once_data.forms SET lease_until = clock_timestamp() WHERE key = once.token_key(:'t');
SELECT is((once.redeem_token('forms', :'t', 'bob')).outcome, 'foreign', 'foreign comes first');
SELECT is((once.redeem_token('forms', :'t', 'ann')).outcome, 'expired', 'too late');

SELECT * FROM finish();
ROLLBACK;
