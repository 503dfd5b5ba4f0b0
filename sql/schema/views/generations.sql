CREATE VIEW once.generations AS
SELECT s.name AS scope, g.generation,
       CASE WHEN g.dropped_at IS NOT NULL THEN 'dropped'
            WHEN g.detached_at IS NOT NULL THEN 'detached'
            WHEN g.unlinked_at IS NOT NULL THEN 'unlinked'
            WHEN g.drained_at IS NOT NULL THEN 'drained'
            WHEN g.sealed_at IS NOT NULL THEN 'sealed'
            WHEN g.opened_at IS NOT NULL THEN 'open'
            ELSE 'published' END AS state,
       g.opened_at, g.sealed_at, g.drained_at,
       CASE WHEN g.dropped_at IS NULL AND g.drained_at + s.dedup_window <= clock_timestamp()
            THEN g.drained_at + s.dedup_window END AS droppable_since,
       g.drained_at + s.dedup_window AS droppable_from,
       g.unlinked_at, g.detached_at, g.dropped_at, g.carried,
       pg_stat_get_live_tuples(l.leaf) AS rows_estimate,
       pg_total_relation_size(l.leaf) AS bytes
  FROM once.generation AS g
  JOIN once.scope AS s ON s.scope_id = g.scope_id
 CROSS JOIN LATERAL (SELECT CASE WHEN g.dropped_at IS NULL THEN once._leaf(s.name, g.generation) END AS leaf) AS l;

COMMENT ON VIEW once.generations IS 'the generations of every scope, dropped ones included';
COMMENT ON COLUMN once.generations.droppable_from IS 'when its window ends';
COMMENT ON COLUMN once.generations.droppable_since IS 'its window is over since then, and it is still there';
COMMENT ON COLUMN once.generations.carried IS 'rows moved to a newer generation because they must outlive this one';
