-- Takes a key for work that leaves the database; one row says what became of it.
-- name: ClaimLeased :one
SELECT * FROM once.claim_leased(
    @scope::text, @key::text, @fingerprint::bytea, @subject::text, sqlc.narg('wait')::interval, sqlc.narg('lease')::interval
);

-- Extends the lease of a claim.
-- name: Heartbeat :exec
SELECT once.heartbeat(
    @scope::text, @key::text, @claim_id::uuid, @attempt::integer, @subject::text, sqlc.narg('lease')::interval
);

-- Stores the result of a named step of a leased claim.
-- name: Checkpoint :exec
SELECT once.checkpoint(
    @scope::text, @key::text, @claim_id::uuid, @attempt::integer, @step::text, @value::jsonb, @subject::text,
    sqlc.narg('lease')::interval
);

-- Ends the lease of a claim whose outcome is unknown.
-- name: Abandon :exec
SELECT once.abandon(@scope::text, @key::text, @claim_id::uuid, @attempt::integer, @reason::text, @subject::text);
