-- The epoch that the scope's fence names now, whatever the caller's snapshot.
CREATE FUNCTION once.current_epoch(p_scope text)
RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN once._route(p_scope, '', '-');
END
$$;

COMMENT ON FUNCTION once.current_epoch(text) IS
'The scope''s current epoch: the number at the end of the names of the functions that serve it now.
For clients that call these functions themselves; each refuses to act once its epoch is over. Raises ON001, ON010.';
