-- A role by its name. Raises ON004.
CREATE FUNCTION once._role(p_role text)
RETURNS regrole
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_role oid;
BEGIN
    SELECT r.oid INTO v_role FROM pg_roles AS r WHERE r.rolname = p_role;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no such role: %', coalesce(quote_literal(left(p_role, 64)), 'NULL')
            USING ERRCODE = 'ON004',
                  DETAIL = 'Names are compared as they are stored: without quotes, in lower case unless created otherwise.',
                  HINT = 'Create it with CREATE ROLE.';
    END IF;
    RETURN v_role;
END
$$;

COMMENT ON FUNCTION once._role(text) IS 'a role by its name';
