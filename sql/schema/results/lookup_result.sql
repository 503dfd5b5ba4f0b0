-- A row shape: functions return it, nobody selects from it.
CREATE VIEW once.lookup_result AS
SELECT NULL::once.claim_state AS state,
       NULL::integer          AS generation,
       NULL::uuid             AS claim_id,
       NULL::integer          AS attempt,
       NULL::bytea            AS fingerprint,
       NULL::bytea            AS result,
       NULL::text             AS content_type,
       NULL::jsonb            AS meta,
       NULL::bigint           AS omitted_bytes,
       NULL::timestamptz      AS claimed_at,
       NULL::timestamptz      AS finished_at,
       NULL::timestamptz      AS lease_until,
       NULL::jsonb            AS checkpoints,
       NULL::text             AS note
 WHERE false;

COMMENT ON VIEW once.lookup_result IS 'row shape of a look-up; always empty';
