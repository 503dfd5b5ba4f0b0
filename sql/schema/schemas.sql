-- The two schemas. "once" is the interface and the catalogue, "once_data" holds what belongs to one scope.
CREATE SCHEMA IF NOT EXISTS once; -- golang-migrate needs it before, for its version table
CREATE SCHEMA once_data;

-- Whoever owns a schema can replace what is in it, and functions in it run with their owner's rights.
DO $$
BEGIN
    IF (SELECT n.nspowner FROM pg_catalog.pg_namespace AS n WHERE n.nspname = 'once') <> current_user::regrole THEN
        RAISE EXCEPTION 'schema once belongs to another role'
            USING HINT = 'Install as the owner of the schema, or drop it first if it is empty and not wanted.';
    END IF;
END
$$;

REVOKE ALL ON SCHEMA once, once_data FROM PUBLIC;

COMMENT ON SCHEMA once IS 'pgonce: functions to call, and the catalogue of scopes, generations and epochs';
COMMENT ON SCHEMA once_data IS 'pgonce: tables, fences and compiled functions of the scopes; nothing here is an interface';
