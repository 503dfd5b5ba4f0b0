-- The table of a generation; NULL if it is not there.
CREATE FUNCTION once._leaf(p_scope text, p_generation integer)
RETURNS regclass
LANGUAGE plpgsql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN to_regclass('once_data.' || quote_ident(p_scope || '_g' || p_generation));
END
$$;

COMMENT ON FUNCTION once._leaf(text, integer) IS 'the table of a generation; NULL if it is not there';
