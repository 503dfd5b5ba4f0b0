-- grant_scope and revoke_scope: a role works in its scopes, and sees nothing else.
BEGIN;
SELECT format('%I', 'pgonce app ' || current_database()) AS app, 'pgonce app ' || current_database() AS app_name, format('%I', 'pgonce_none_' || current_database()) AS nobody \gset
CREATE ROLE :app;
CREATE ROLE :nobody;
SELECT format('GRANT %s TO %I', r, (SELECT nspowner::regrole FROM pg_namespace WHERE nspname = 'once')) FROM unnest(ARRAY[:'app', :'nobody']) AS r \gexec
COMMIT;
\ir _begin.sql
SELECT no_plan();
SELECT once.create_scope('other', '2 hours', '1 hour');
SELECT once.claim('other', 'k');
SELECT once.alter_scope(x, p_session_length => '1 hour') FROM unnest(ARRAY['s', 'other']) AS x;

CREATE TEMPORARY TABLE work (call text, code text);
INSERT INTO work VALUES
    ('SELECT outcome FROM once.claim(''%s'', ''k'')', '42501'),
    ('SELECT outcome FROM once.claim(''%s'', ''d'', p_defer => true)', '42501'),
    ('SELECT outcome FROM once.claim_many(''%s'', ''{a,b}'')', '42501'),
    ('SELECT once.issue_token(''%s'', ''ann'')', '42501'),
    ('SELECT outcome FROM once.redeem_token(''%s'', ''t'', ''ann'')', '42501'),
    ('SELECT outcome FROM once.claim_leased(''%s'', ''l'')', '42501'),
    ('SELECT state FROM once.lookup(''%s'', ''k'')', '42501'),
    ('SELECT once.current_epoch(''%s'')', '42501');

SELECT is((pg_temp.refusal(format(call, 's'), :'app_name')).code, '42501', 'nothing is granted: ' || call) FROM work;
SELECT lives_ok(format('SELECT once.grant_scope(''s'', %L)', :'app_name'), 'grant_scope');
SELECT lives_ok(format('SELECT once.grant_scope(''s'', %L)', :'app_name'), 'twice is once');
SELECT is((pg_temp.refusal(format(call, 's'), :'app_name')).code, 'accepted', 'granted: ' || call) FROM work;
SELECT is((pg_temp.refusal(format(call, 'other'), :'app_name')).code, '42501', 'not in another scope: ' || call) FROM work;
SELECT is((pg_temp.refusal('SELECT once.complete(''s'', ''k'', ' || quote_literal(claim_id) || ', 1)', :'app_name')).code, 'accepted', 'complete') FROM once.lookup('s', 'k');
SELECT is((pg_temp.refusal(format('SELECT once.%s(''other'', ''k'', %L, 1)', f, l.claim_id), :'app_name')).code, '42501', 'not in another scope: ' || f)
  FROM once.lookup('other', 'k') AS l, unnest(ARRAY['complete', 'fail', 'release']) AS f;
SELECT is((once.lookup('other', 'k')).state, 'in_progress', 'which is as it was');

SELECT is((pg_temp.refusal(format('SELECT * FROM %s', t), :'app_name')).code, '42501', 'cannot read ' || t)
  FROM (SELECT oid::regclass::text AS t FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'S') AND relnamespace IN ('once'::regnamespace, 'once_data'::regnamespace)
          AND relname NOT IN ('s_fence')) AS x;
SELECT is((pg_temp.refusal(format('%s', sql), :'app_name')).code, '42501', 'cannot: ' || sql)
  FROM unnest(ARRAY['SELECT nextval(''once_data.s_fence'')', 'SELECT setval(''once_data.s_fence'', 7)',
                    'SELECT nextval(''once_data.s_seed'')', 'INSERT INTO once_data.s_g1 DEFAULT VALUES', 'UPDATE once_data.s_g1 SET state = ''done''', 'DELETE FROM once_data.s',
                    'TRUNCATE once_data.s', 'CREATE TABLE once_data.mine ()', 'CREATE FUNCTION once.mine() RETURNS int LANGUAGE sql AS ''SELECT 1''', 'CALL once.maintain()',
                    'SELECT once._maintain_step(''s'', now())', 'SELECT once._scope_names(NULL)', 'SELECT once.create_scope(''mine'', ''2 hours'', ''1 hour'')',
                    'SELECT once.alter_scope(''s'', p_lease => ''1 hour'')', 'SELECT once.drop_scope(''s'')', 'SELECT once.grant_scope(''other'', current_user)',
                    'SELECT once.revoke_scope(''s'', current_user)', 'SELECT once._switch_epoch(1, now())', 'SELECT * FROM once._in_flight()']) AS sql;
-- Some versions refuse it, others answer NULL.
SELECT ok((pg_temp.refusal('DO $$BEGIN ASSERT pg_sequence_last_value(''once_data.s_seed'') IS NULL; END$$', :'app_name')).code IN ('42501', 'accepted'), 'cannot read the seed');
SELECT is((pg_temp.refusal('SELECT pg_sequence_last_value(''once_data.s_fence'')', :'app_name')).code, 'accepted', 'can read the fence');

-- Whatever the role has in its search_path and its temporary schema, the functions of the owner do not see it.
SELECT is((pg_temp.refusal('CREATE TEMPORARY TABLE generation (n int); CREATE TEMPORARY TABLE pg_class (n int); SET LOCAL search_path = pg_temp, pg_catalog;
    SELECT outcome FROM once.claim(''s'', ''shadow''); SET LOCAL search_path = tap, pg_catalog; DROP TABLE pg_temp.generation, pg_temp.pg_class', :'app_name')).code, 'accepted', 'claims with objects of the same names around');
SELECT is((once.lookup('s', 'shadow')).state, 'in_progress', 'in the scope''s own table');

-- Epochs to come are granted too.
SELECT is((SELECT count(*) FROM once._maintain_step('s', clock_timestamp() + interval '1 hour') WHERE _maintain_step ->> 'step' = 'rotate'), 1::bigint, 'a rotation');
SELECT is((SELECT count(*) FROM once._maintain_step('s', clock_timestamp() + interval '1 hour') WHERE _maintain_step ->> 'step' = 'switch'), 1::bigint, 'a switch');
SELECT is(once.current_epoch('s'), 2::bigint, 'the next epoch');
SELECT is((pg_temp.refusal(format(call, 's'), :'app_name')).code, CASE WHEN call LIKE '%p_defer%' THEN 'ON009' ELSE 'accepted' END, 'granted in the next epoch: ' || call) FROM work;
SELECT is_empty($$SELECT p.oid::regprocedure FROM pg_proc AS p, LATERAL aclexplode(p.proacl) AS a WHERE p.pronamespace = 'once_data'::regnamespace AND a.grantee = 0$$,
                'nothing is granted to everybody');

SELECT lives_ok(format('SELECT once.revoke_scope(''s'', %L)', :'app_name'), 'revoke_scope');
SELECT lives_ok(format('SELECT once.revoke_scope(''s'', %L)', :'app_name'), 'twice is once');
SELECT is((pg_temp.refusal(format(call, 's'), :'app_name')).code, '42501', 'revoked: ' || call) FROM work;
SELECT is_empty(format($$SELECT p.oid::regprocedure FROM pg_proc AS p, LATERAL aclexplode(p.proacl) AS a WHERE p.pronamespace = 'once_data'::regnamespace AND a.grantee = %L::regrole$$, :'app'),
                'no function of the scope is granted any more');
SELECT isnt((pg_temp.refusal('SELECT once.claim(''s'', ''k'')', :'app_name')).hint, '', 'the refusal says what to do');

-- Roles that are none.
SELECT pg_temp.is_refused(format('SELECT once.%s(''s'', %L)', f, r), 'ON004', f || ': no role ' || coalesce(r, 'NULL'))
  FROM unnest(ARRAY[NULL, '', 'public', 'PUBLIC', 'nobody at all', '"postgres"', 'x; DROP ROLE postgres']) AS r, unnest(ARRAY['grant_scope', 'revoke_scope']) AS f;

SELECT * FROM finish();
ROLLBACK;
DROP ROLE :app, :nobody;
