-- Puts a guard on a business table: no writer can lower the attempt that a row carries.
CREATE FUNCTION once.guard_attempts(p_table regclass, p_column name)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_attribute AS a
                    WHERE a.attrelid = p_table AND a.attname = p_column AND NOT a.attisdropped AND a.attnum > 0
                      AND a.atttypid IN ('integer'::regtype, 'bigint'::regtype)) THEN
        RAISE EXCEPTION 'table % has no column % for attempts', coalesce(p_table::text, 'NULL'), coalesce(quote_ident(p_column), 'NULL')
            USING ERRCODE = 'ON004',
                  DETAIL = 'Attempts are numbers: the column is an integer or bigint.',
                  HINT = 'Add one, NULL until a leased claim writes the row: ALTER TABLE … ADD COLUMN attempt integer.';
    END IF;
    -- The condition belongs to the trigger, so that a write which is in order calls nothing.
    EXECUTE format(
        'CREATE OR REPLACE TRIGGER once_guard_attempts BEFORE UPDATE ON %1$s FOR EACH ROW
             WHEN (OLD.%2$I IS NOT NULL AND (NEW.%2$I >= OLD.%2$I) IS NOT TRUE)
             EXECUTE FUNCTION once._refuse_attempt(%2$L)', p_table, p_column);
END
$$;

COMMENT ON FUNCTION once.guard_attempts(regclass, name) IS
'Puts a guard on a business table: an UPDATE that would lower the attempt which a row carries, or remove it, is refused, whoever writes. So a leased
claim''s earlier attempt, stopped for longer than its lease, cannot overwrite what a later one wrote. Write the attempt with every UPDATE.
p_column: the column of the attempt, integer or bigint; rows in which it is NULL take any. Call it again to move the guard to another column.
The caller owns the table. Remove it with DROP TRIGGER once_guard_attempts ON the table.
Raises ON004 (no such column). The guard raises ON007.';
