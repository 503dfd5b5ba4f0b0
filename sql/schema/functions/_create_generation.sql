-- Creates and attaches the table of a generation. Always a fresh table: truncating or recycling one is not safe for older snapshots.
-- ATTACH, not PARTITION OF, which would take ACCESS EXCLUSIVE on the parent.
CREATE FUNCTION once._create_generation(p_scope_id integer, p_generation integer)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_scope text;
    v_leaf text;
BEGIN
    SELECT s.name INTO STRICT v_scope FROM once.scope AS s WHERE s.scope_id = p_scope_id;
    v_leaf := v_scope || '_g' || p_generation;
    EXECUTE format(
        'CREATE TABLE once_data.%1$I (LIKE once.claim_template INCLUDING COMMENTS,
             CONSTRAINT %2$I PRIMARY KEY (subject, key)) WITH (vacuum_truncate = off)',
        v_leaf, v_leaf || '_pk');
    -- What maintenance and the in-flight view look for; rows that are written finished never enter it.
    EXECUTE format('CREATE INDEX %1$I ON once_data.%2$I (claimed_at) WHERE state IN (''in_progress'', ''parked'')',
                   v_leaf || '_open_idx', v_leaf);
    EXECUTE format('ALTER TABLE once_data.%I ATTACH PARTITION once_data.%I FOR VALUES IN (%s)', v_scope, v_leaf, p_generation);
    INSERT INTO once.generation (scope_id, generation) VALUES (p_scope_id, p_generation);
END
$$;

COMMENT ON FUNCTION once._create_generation(integer, integer) IS 'creates and attaches the table of a generation';
