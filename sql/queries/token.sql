-- Issues a token that stands for one operation of a subject.
-- name: IssueToken :one
SELECT once.issue_token(@scope::text, @subject::text, sqlc.narg('ttl')::interval)::text AS token;

-- Redeems a token; one row says what became of it.
-- name: RedeemToken :one
SELECT * FROM once.redeem_token(@scope::text, @token::text, @subject::text, sqlc.narg('wait')::interval);
