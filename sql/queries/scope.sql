-- Creates a scope with the policy that has no default; AlterScope, in the same transaction, states the rest. Intervals are text
-- here, because an interval need not be a time.Duration: 1 month.
-- name: CreateScope :exec
SELECT once.create_scope(
    p_name => @name::text, p_window => sqlc.narg('dedup_window')::text::interval,
    p_retry_horizon => sqlc.narg('retry_horizon')::text::interval, p_subject_required => @subject_required::boolean);

-- Changes the policy of a scope; what is nil stays as it is.
-- name: AlterScope :exec
SELECT once.alter_scope(
    p_name => @name::text, p_window => sqlc.narg('dedup_window')::text::interval,
    p_retry_horizon => sqlc.narg('retry_horizon')::text::interval, p_generations => sqlc.narg('generations')::integer,
    p_lease => sqlc.narg('lease')::text::interval, p_max_attempts => sqlc.narg('max_attempts')::integer,
    p_on_expiry => sqlc.narg('on_expiry')::text, p_max_result_bytes => sqlc.narg('max_result_bytes')::integer,
    p_rotate_rows => sqlc.narg('rotate_rows')::bigint, p_archive => sqlc.narg('archive')::text,
    p_session_length => sqlc.narg('session_length')::text::interval);

-- Drops a scope and everything in it.
-- name: DropScope :exec
SELECT once.drop_scope(p_name => @name::text, p_discard_keys => @discard_keys::boolean);

-- Lets a role claim in a scope.
-- name: GrantScope :exec
SELECT once.grant_scope(p_name => @name::text, p_role => @role::text);

-- Takes back what GrantScope gave.
-- name: RevokeScope :exec
SELECT once.revoke_scope(p_name => @name::text, p_role => @role::text);

-- The scopes, of this name or all, with their policies and what they hold.
-- name: Scopes :many
SELECT s.name, s.dedup_window::text AS dedup_window, s.retry_horizon::text AS retry_horizon, s.generations, s.rotate_rows,
       s.lease::text AS lease, s.max_attempts, s.on_expiry, s.max_result_bytes, s.subject_required, s.archive,
       coalesce(s.session_length::text, '')::text AS session_length,
       coalesce(s.epoch, 0)::bigint AS epoch, coalesce(s.open_generation, 0)::integer AS open_generation,
       s.open_since, coalesce(s.live_generations, 0)::bigint AS live_generations,
       coalesce(s.rows_estimate, 0)::bigint AS rows_estimate, coalesce(s.bytes, 0)::bigint AS bytes,
       s.created_at, s.maintained_at
  FROM once.scopes AS s
 WHERE sqlc.narg('name')::text IS NULL OR s.name = sqlc.narg('name')::text
 ORDER BY s.name;
