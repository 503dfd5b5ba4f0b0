-- Takes a key. Exactly one claim of a key wins inside the scope's window, at every isolation level.
CREATE FUNCTION once.claim(
    p_scope text,
    p_key text,
    p_fingerprint bytea DEFAULT NULL,
    p_subject text DEFAULT '',
    p_wait interval DEFAULT NULL,
    p_defer boolean DEFAULT false,
    p_done boolean DEFAULT false
)
RETURNS once.claim_result
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_result once.claim_result;
BEGIN
    FOR i IN 1..100 LOOP
        EXECUTE format('SELECT * FROM once_data.%I($1, $2, $3, $4, $5, $6, NULL, NULL)',
                       p_scope || '_claim_e' || once._route(p_scope, p_subject, p_key))
           INTO v_result
          USING p_subject, p_key, p_fingerprint, p_wait, coalesce(p_defer, false), coalesce(p_done, false);
        IF v_result.outcome IS NOT NULL THEN
            RETURN v_result;
        END IF;
    END LOOP;
    PERFORM once._raise_again(p_scope);
END
$$;

COMMENT ON FUNCTION once.claim(text, text, bytea, text, interval, boolean, boolean) IS
'Takes a key; one row says what became of it. Call it as SELECT * FROM once.claim(…), as a statement of its own.
p_fingerprint: digest of the request; the same key with another one is a mismatch. NULL: not compared.
p_wait: how long to wait for a transaction that holds the key. NULL: until it ends, or lock_timeout; zero: answer in_progress at once.
p_defer: write nothing yet; the row is written by complete, in this transaction (READ COMMITTED only, ignored above). Whoever defers must complete, and
must not RESET ALL before.
p_done: the row is written finished, without a result, for work in this same transaction: nothing is left to complete.
Outcomes: fresh, replay, in_progress, mismatch, failed, parked.
Locks: the key, by a transaction-level advisory lock. Raises ON001, ON002, ON003, ON008, ON009, ON010; 40001 above READ COMMITTED.';
