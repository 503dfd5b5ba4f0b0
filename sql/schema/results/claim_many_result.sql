-- A row shape: functions return it, nobody selects from it.
CREATE VIEW once.claim_many_result AS
SELECT NULL::integer      AS position,
       NULL::text         AS key,
       NULL::once.outcome AS outcome,
       NULL::integer      AS attempt,
       NULL::uuid         AS claim_id,
       NULL::interval     AS retry_after,
       NULL::bytea        AS result,
       NULL::text         AS content_type,
       NULL::jsonb        AS meta,
       NULL::bigint       AS omitted_bytes,
       NULL::timestamptz  AS finished_at
 WHERE false;

COMMENT ON VIEW once.claim_many_result IS 'row shape of an answer in a batch: claim_result with the key and its position, from 1; always empty';
