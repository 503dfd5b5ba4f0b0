-- The scope's fence: the sequence whose value is the current epoch. NULL: no such scope.
CREATE FUNCTION once._fence(p_scope text)
RETURNS regclass
LANGUAGE plpgsql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN to_regclass('once_data.' || quote_ident(p_scope || '_fence'));
END
$$;

COMMENT ON FUNCTION once._fence(text) IS 'the sequence whose value is the scope''s current epoch';
