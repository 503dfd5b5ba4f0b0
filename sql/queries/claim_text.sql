-- Takes a key, like Claim, with a wait that may be any interval.
-- name: ClaimText :one
SELECT * FROM once.claim(
    @scope::text, @key::text, sqlc.narg('fingerprint')::bytea, @subject::text, sqlc.narg('wait')::text::interval, false
);
