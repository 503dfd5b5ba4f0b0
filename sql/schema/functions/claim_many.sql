-- Takes many keys of one scope and subject, in one order for every caller, so that batches do not deadlock among themselves, except when a rotation comes between.
CREATE FUNCTION once.claim_many(
    p_scope text,
    p_keys text[],
    p_fingerprints bytea[] DEFAULT NULL,
    p_subject text DEFAULT '',
    p_wait interval DEFAULT NULL
)
RETURNS SETOF once.claim_many_result
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_cap integer := once._batch_cap();
    v_todo integer[];
    v_again integer[];
    v_row once.claim_many_result;
    v_rows once.claim_many_result[];
    v_bad text;
BEGIN
    IF p_keys IS NULL OR array_ndims(p_keys) > 1 OR array_ndims(p_fingerprints) > 1
       OR cardinality(p_fingerprints) <> cardinality(p_keys)
       OR array_lower(p_keys, 1) <> 1 OR array_lower(p_fingerprints, 1) <> 1 THEN
        RAISE EXCEPTION 'keys must be a list, and fingerprints NULL or a list of the same length'
            USING ERRCODE = 'ON004',
                  DETAIL = 'A list has one dimension and begins at 1.',
                  HINT = 'Pass one fingerprint a key; an element may be NULL.';
    END IF;
    IF cardinality(p_keys) > v_cap THEN
        RAISE EXCEPTION 'too many keys: %, at most % in one batch', cardinality(p_keys), v_cap
            USING ERRCODE = 'ON011',
                  DETAIL = 'Each key takes a lock in shared memory until the transaction ends. The limit is 1000, or an eighth of the lock table.',
                  HINT = 'Split the batch over several transactions, or raise max_locks_per_transaction.';
    END IF;
    -- Nothing is claimed before every key is known to be sound.
    SELECT k.key INTO v_bad FROM unnest(p_keys) AS k(key)
     WHERE k.key IS NULL OR octet_length(k.key) NOT BETWEEN 1 AND 255 LIMIT 1;
    PERFORM once._route(p_scope, p_subject, CASE WHEN FOUND THEN v_bad ELSE '-' END);

    v_todo := ARRAY(SELECT generate_subscripts(p_keys, 1));
    FOR v_round IN 1..100 LOOP
        v_again := '{}';
        -- Repeats of a key are claimed one after the other: the first may be fresh, the others meet it in progress.
        FOR v_row IN EXECUTE format(
            'SELECT k.position, k.key, c.*
               FROM (SELECT t.position, ($1)[t.position] AS key, ($2)[t.position] AS fingerprint
                       FROM unnest($3) AS t(position)
                      ORDER BY ($1)[t.position] COLLATE "C", t.position
                     OFFSET 0) AS k
              CROSS JOIN LATERAL once_data.%I($4, k.key, k.fingerprint, $5, false, false, NULL, NULL) AS c',
            p_scope || '_claim_e' || once._route(p_scope, p_subject, '-'))
            USING p_keys, p_fingerprints, v_todo, p_subject, p_wait
        LOOP
            IF v_row.outcome IS NULL THEN
                v_again := v_again || v_row.position;
            ELSE
                v_rows[v_row.position] := v_row;
            END IF;
        END LOOP;
        IF v_again = '{}' THEN
            RETURN QUERY SELECT * FROM unnest(v_rows);
            RETURN;
        END IF;
        v_todo := v_again;
    END LOOP;
    PERFORM once._raise_again(p_scope);
END
$$;

COMMENT ON FUNCTION once.claim_many(text, text[], bytea[], text, interval) IS
'Takes many keys of one scope and subject: one row a key, in the order of p_keys, with what once.claim would answer.
p_fingerprints: one a key, or NULL. p_wait: the wait for each key that another transaction holds, as in once.claim.
Keys are taken in one order whatever order they are given in; a repeat of a key is never fresh twice.
At most 1000 keys, fewer where the lock table is small. Raises ON011 and what once.claim raises; then nothing is claimed.';
