-- A row shape: functions return it, nobody selects from it.
CREATE VIEW once.claim_result AS
SELECT NULL::once.outcome AS outcome,
       NULL::integer      AS attempt,
       NULL::uuid         AS claim_id,
       NULL::interval     AS retry_after,
       NULL::bytea        AS result,
       NULL::text         AS content_type,
       NULL::jsonb        AS meta,
       NULL::bigint       AS omitted_bytes,
       NULL::timestamptz  AS finished_at
 WHERE false;

COMMENT ON VIEW once.claim_result IS 'row shape of a claim''s answer; always empty';
COMMENT ON COLUMN once.claim_result.attempt IS 'fencing number: of this claim if fresh, else of the row that was met';
COMMENT ON COLUMN once.claim_result.claim_id IS 'fresh, redeemed: the claim''s identity, for complete, fail and release; replay, failed: that of the claim that finished';
COMMENT ON COLUMN once.claim_result.retry_after IS 'in_progress: when to ask again; fresh, where the claim is leased: how long the lease lasts';
COMMENT ON COLUMN once.claim_result.omitted_bytes IS 'replay, failed: the result was this large and is not stored';
