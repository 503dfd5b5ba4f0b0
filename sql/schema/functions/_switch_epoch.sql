-- Moves the fence to the newest epoch, the atomic switch, and records it. Returns the epoch, or NULL where there was nothing to
-- switch. Resumable: what an interrupted switch left undone is done by the next call. The caller (maintain) has the epoch's publication committed before; only the first epoch of a scope is switched to in
-- the transaction that made it, where nobody can see either.
CREATE FUNCTION once._switch_epoch(p_scope_id integer, p_now timestamptz)
RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_fence regclass;
    v_new once.epoch;
BEGIN
    -- The lock keeps two maintainers apart; everything below is read after it is held.
    SELECT once._fence(s.name) INTO STRICT v_fence FROM once.scope AS s WHERE s.scope_id = p_scope_id FOR UPDATE;
    SELECT * INTO STRICT v_new FROM once.epoch AS e WHERE e.scope_id = p_scope_id ORDER BY e.epoch DESC LIMIT 1;
    IF pg_sequence_last_value(v_fence) < v_new.epoch OR pg_sequence_last_value(v_fence) IS NULL THEN
        PERFORM setval(v_fence, v_new.epoch);
    END IF;
    IF v_new.switched_at IS NOT NULL THEN
        RETURN NULL;
    END IF;
    -- Recorded after the fact, since the fence is not undone by a rollback: a time that is late only keeps keys longer.
    UPDATE once.epoch AS e SET switched_at = p_now
     WHERE e.scope_id = p_scope_id AND e.epoch = v_new.epoch;
    UPDATE once.generation AS g
       SET opened_at = coalesce(g.opened_at, p_now),
           sealed_at = CASE WHEN g.generation <> v_new.generation THEN coalesce(g.sealed_at, p_now) END,
           unlinked_at = CASE WHEN g.generation <> v_new.generation AND g.generation <> ALL (v_new.sealed)
                              THEN coalesce(g.unlinked_at, p_now) END
     WHERE g.scope_id = p_scope_id AND g.unlinked_at IS NULL;
    RETURN v_new.epoch;
END
$$;

COMMENT ON FUNCTION once._switch_epoch(integer, timestamptz) IS 'moves the scope''s fence to its newest epoch';
