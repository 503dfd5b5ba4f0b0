-- The generations, of a scope or all, that are not dropped.
-- name: Generations :many
SELECT g.scope, g.generation, g.state::text AS state, g.opened_at, g.sealed_at, g.drained_at,
       (g.droppable_since IS NOT NULL)::boolean AS droppable, g.carried,
       coalesce(g.rows_estimate, 0)::bigint AS rows_estimate, coalesce(g.bytes, 0)::bigint AS bytes
  FROM once.generations AS g
 WHERE g.dropped_at IS NULL AND (sqlc.narg('scope')::text IS NULL OR g.scope = sqlc.narg('scope')::text)
 ORDER BY g.scope, g.generation;

-- How many claims are committed and unfinished, by scope and state.
-- name: InFlight :many
SELECT f.scope::text AS scope, f.state::once.claim_state AS state, count(*) AS claims, min(f.claimed_at)::timestamptz AS oldest
  FROM once._in_flight() AS f
 WHERE sqlc.narg('scope')::text IS NULL OR f.scope = sqlc.narg('scope')::text
 GROUP BY f.scope, f.state
 ORDER BY f.scope, f.state;
