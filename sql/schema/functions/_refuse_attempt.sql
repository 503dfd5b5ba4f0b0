-- Trigger of once.guard_attempts: the write is one of an earlier attempt.
CREATE FUNCTION once._refuse_attempt()
RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'attempt % cannot write a row of % that attempt % wrote',
                    coalesce(to_jsonb(NEW) ->> TG_ARGV[0], 'NULL'), TG_RELID::regclass, to_jsonb(OLD) ->> TG_ARGV[0]
        USING ERRCODE = 'ON007',
              DETAIL = 'A later attempt at the same operation has taken over.',
              HINT = 'Change nothing on behalf of the earlier attempt.';
END
$$;

COMMENT ON FUNCTION once._refuse_attempt() IS 'trigger of once.guard_attempts: refuses the write of an earlier attempt';
