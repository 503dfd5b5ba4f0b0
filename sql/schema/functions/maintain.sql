-- Rotates, drains, retires and repairs, step by step, each in a transaction of its own. A procedure that commits cannot pin its
-- search_path: every name is qualified, and operators are used only between types for which pg_catalog has the exact one.
CREATE PROCEDURE once.maintain(
    p_scope text DEFAULT NULL,
    p_wait interval DEFAULT '3 seconds',
    p_now timestamptz DEFAULT NULL,
    INOUT p_report jsonb DEFAULT NULL
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_until timestamptz := pg_catalog.clock_timestamp() + coalesce(p_wait, interval '0');
    v_scopes text[];
    v_scope text;
    v_events jsonb;
    v_pause double precision;
BEGIN
    p_report := '[]';
    -- Steps must see what was committed a moment ago, whatever the session's default.
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    v_scopes := once._scope_names(p_scope);
    FOREACH v_scope IN ARRAY v_scopes LOOP
        v_pause := 0.005;
        LOOP
            SELECT coalesce(pg_catalog.jsonb_agg(e), '[]') INTO v_events
              FROM once._maintain_step(v_scope, greatest(p_now, pg_catalog.clock_timestamp())) AS e;
            COMMIT;
            SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
            IF v_events @> '[{"result": "done"}]' THEN
                p_report := p_report || v_events;
                v_pause := 0.005;
            ELSIF (v_events @> '[{"result": "waiting"}]' OR v_events @> '[{"result": "busy"}]')
                  AND pg_catalog.clock_timestamp() < v_until THEN
                PERFORM pg_catalog.pg_sleep(v_pause);
                v_pause := least(v_pause + v_pause, 0.2);
            ELSE
                p_report := p_report || v_events;
                EXIT;
            END IF;
        END LOOP;
    END LOOP;
END
$$;

COMMENT ON PROCEDURE once.maintain(text, interval, timestamptz, jsonb) IS
'Rotates, drains, retires and repairs the scopes; call it every minute. Each step is a transaction of its own: the work can be
interrupted anywhere and is resumed by the next call; several sessions may call it at once. No claim waits for a rotation.
p_scope: one scope; NULL: all. p_wait: how long to wait, in all, for transactions that hold a step back; the next call goes on.
p_now: a later time to act, and record, as if it had come, for tests. p_report: a JSON array of steps taken (result done) and held back (waiting,
busy, kept, missing), with the reason. Cannot run inside a transaction block.';
