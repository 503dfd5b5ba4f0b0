-- The functions that belong to one epoch of a scope.
CREATE FUNCTION once._epoch_functions(p_scope text, p_epoch bigint)
RETURNS SETOF regprocedure
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY
        SELECT p.oid::regprocedure
          FROM pg_proc AS p
         WHERE p.pronamespace = 'once_data'::regnamespace
           AND p.proname IN (SELECT p_scope || '_' || f.name || '_e' || p_epoch
                               FROM unnest('{claim,settle,lookup,takeover,renew,token}'::text[]) AS f(name));
END
$$;

COMMENT ON FUNCTION once._epoch_functions(text, bigint) IS 'the functions that belong to one epoch of a scope';
