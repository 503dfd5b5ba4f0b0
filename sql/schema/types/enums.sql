CREATE TYPE once.outcome AS ENUM ('fresh', 'replay', 'in_progress', 'mismatch', 'failed', 'parked');
COMMENT ON TYPE once.outcome IS 'what became of a claim';

CREATE TYPE once.claim_state AS ENUM ('in_progress', 'done', 'failed', 'parked', 'tombstone');
COMMENT ON TYPE once.claim_state IS
    'state of a claim''s row; a tombstone stands where a key was moved away, or where a claim above READ COMMITTED proved its absence';
