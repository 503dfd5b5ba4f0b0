-- Reads what is known of a key, without claiming it.
CREATE FUNCTION once.lookup(p_scope text, p_key text, p_subject text DEFAULT '')
RETURNS SETOF once.lookup_result
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_row once.lookup_result;
    v_rows bigint;
BEGIN
    FOR i IN 1..100 LOOP
        EXECUTE format('SELECT * FROM once_data.%I($1, $2)',
                       p_scope || '_lookup_e' || once._route(p_scope, p_subject, p_key))
           INTO v_row USING p_subject, p_key;
        GET DIAGNOSTICS v_rows = ROW_COUNT;
        IF v_rows = 0 THEN
            RETURN;
        ELSIF v_row.state IS NOT NULL THEN
            RETURN NEXT v_row;
            RETURN;
        END IF;
    END LOOP;
    PERFORM once._raise_again(p_scope);
END
$$;

COMMENT ON FUNCTION once.lookup(text, text, text) IS
'Reads the row of a key, in whatever state, as the caller''s snapshot sees it. No row: not known inside the window.
Above READ COMMITTED, a row that maintenance moved after the snapshot was taken may not be found; claim raises 40001 for it.
Takes no lock and waits for nobody. Raises ON001, ON002, ON003, ON008, ON010.';
