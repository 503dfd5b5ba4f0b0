CREATE TYPE once.outcome AS ENUM ('fresh', 'replay', 'in_progress', 'mismatch', 'failed', 'parked', 'redeemed', 'unknown', 'foreign', 'expired');
COMMENT ON TYPE once.outcome IS 'what became of a claim, or, from redeemed on, of a token';

CREATE TYPE once.claim_state AS ENUM ('in_progress', 'done', 'failed', 'parked', 'tombstone', 'issued');
COMMENT ON TYPE once.claim_state IS
    'state of a claim''s row; a tombstone stands where a key was moved away, or where a claim above READ COMMITTED proved its absence; issued is a token that
nobody has redeemed yet';
