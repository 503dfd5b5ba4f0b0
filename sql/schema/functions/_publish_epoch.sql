-- Writes the next epoch of a scope: its functions and its row. The caller holds the scope's row FOR UPDATE. Nothing uses
-- the epoch before the fence names it, and that takes a later transaction (once._switch_epoch), except at the birth of a scope.
CREATE FUNCTION once._publish_epoch(p_scope_id integer, p_generation integer, p_sealed integer[])
RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_scope text;
    v_epoch bigint;
BEGIN
    SELECT s.name INTO STRICT v_scope FROM once.scope AS s WHERE s.scope_id = p_scope_id;
    SELECT greatest(max(e.epoch), pg_sequence_last_value(once._fence(v_scope)), 0) + 1 INTO v_epoch
      FROM once.epoch AS e WHERE e.scope_id = p_scope_id;

    EXECUTE once._compile_claim(v_scope, v_epoch, p_generation, p_sealed, p_scope_id);
    EXECUTE once._compile_settle(v_scope, v_epoch, p_generation, p_sealed);
    EXECUTE once._compile_lookup(v_scope, v_epoch, p_generation, p_sealed);
    EXECUTE once._compile_takeover(v_scope, v_epoch, p_generation, p_sealed);
    EXECUTE once._compile_renew(v_scope, v_epoch, p_generation, p_sealed);
    EXECUTE once._compile_token(v_scope, v_epoch, p_generation, p_sealed, p_scope_id);
    PERFORM once._grant_epoch(p_scope_id, v_scope, v_epoch);

    INSERT INTO once.epoch (scope_id, epoch, generation, sealed)
    VALUES (p_scope_id, v_epoch, p_generation, p_sealed);
    RETURN v_epoch;
END
$$;

COMMENT ON FUNCTION once._publish_epoch(integer, integer, integer[]) IS 'writes the next epoch of a scope and returns its number';
