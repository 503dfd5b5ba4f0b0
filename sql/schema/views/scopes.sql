CREATE VIEW once.scopes AS
SELECT s.name, s.dedup_window, s.retry_horizon, s.generations, s.rotate_rows, s.lease, s.max_attempts, s.on_expiry,
       s.max_result_bytes, s.subject_required, s.archive, s.session_length,
       pg_sequence_last_value(once._fence(s.name)) AS epoch,
       o.generation AS open_generation, o.opened_at AS open_since,
       l.live_generations, l.rows_estimate, l.bytes,
       s.created_at, s.maintained_at
  FROM once.scope AS s
  LEFT JOIN LATERAL (
       SELECT g.generation, g.opened_at FROM once.generation AS g
        WHERE g.scope_id = s.scope_id AND g.opened_at IS NOT NULL AND g.sealed_at IS NULL AND g.dropped_at IS NULL
        ORDER BY g.generation DESC LIMIT 1) AS o ON true
  LEFT JOIN LATERAL (
       SELECT count(*) FILTER (WHERE g.unlinked_at IS NULL) AS live_generations,
              sum(pg_stat_get_live_tuples(once._leaf(s.name, g.generation)))::bigint AS rows_estimate,
              sum(pg_total_relation_size(once._leaf(s.name, g.generation)))::bigint AS bytes
         FROM once.generation AS g
        WHERE g.scope_id = s.scope_id AND g.dropped_at IS NULL) AS l ON true;

COMMENT ON VIEW once.scopes IS 'the scopes, their policies, and what they hold';
COMMENT ON COLUMN once.scopes.open_since IS 'since when the open generation takes keys; much longer than dedup_window / generations, with rows in it: maintain does not run (an empty one is not rotated)';
COMMENT ON COLUMN once.scopes.live_generations IS 'generations that a claim looks at';
COMMENT ON COLUMN once.scopes.rows_estimate IS 'rows by the statistics system';
