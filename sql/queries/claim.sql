-- Takes a key; one row says what became of it.
-- name: Claim :one
SELECT * FROM once.claim(
    @scope::text, @key::text, @fingerprint::bytea, @subject::text, sqlc.narg('wait')::interval, @defer_write::boolean, @done::boolean
);

-- Ends a claim as done and stores its result.
-- name: Complete :exec
SELECT once.complete(
    @scope::text, @key::text, @claim_id::uuid, @attempt::integer,
    @result::bytea, sqlc.narg('content_type')::text, @meta::jsonb, @subject::text, @fingerprint::bytea
);

-- Ends a claim as failed, finally, and stores the refusal.
-- name: Fail :exec
SELECT once.fail(
    @scope::text, @key::text, @claim_id::uuid, @attempt::integer,
    @result::bytea, sqlc.narg('content_type')::text, @meta::jsonb, @subject::text, @fingerprint::bytea
);

-- Gives an unfinished claim back.
-- name: Release :exec
SELECT once.release(@scope::text, @key::text, @claim_id::uuid, @attempt::integer, @subject::text);

-- Reads what is known of a key, without claiming it.
-- name: Lookup :one
SELECT * FROM once.lookup(@scope::text, @key::text, @subject::text);

-- The scope's current epoch.
-- name: CurrentEpoch :one
SELECT once.current_epoch(@scope::text)::bigint;
