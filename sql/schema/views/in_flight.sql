CREATE VIEW once.in_flight AS
SELECT f.scope, f.generation, f.subject, f.key, f.state, f.attempt, f.claim_id, f.claimed_at, f.lease_until
  FROM once._in_flight() AS f;

COMMENT ON VIEW once.in_flight IS
    'claims that are committed and not finished, parked ones included. A claim whose transaction is still running is not visible here';
