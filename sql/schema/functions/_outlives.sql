-- The condition on a row that must outlive its generation: unfinished, parked, finished within the window before p_now, or a token
-- that can still be redeemed.
CREATE FUNCTION once._outlives(p_scope once.scope, p_now timestamptz)
RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN format('(state IN (''in_progress'', ''parked'') OR state IN (''done'', ''failed'') AND finished_at > %L::timestamptz
                    OR state = ''issued'' AND lease_until > %L::timestamptz)',
                  p_now - p_scope.dedup_window, p_now);
END
$$;

COMMENT ON FUNCTION once._outlives(once.scope, timestamptz) IS 'the condition on a row that must outlive its generation';
