-- The columns of every generation, fixed-width first. No CHECK here: the functions that insert check their arguments, at a tenth of the cost. Generations are made LIKE this table; it never holds a row.
-- A column added here reaches new generations only: leaves are never rewritten, since a rewritten table looks empty to
-- older snapshots.
CREATE TABLE once.claim_template (
    claimed_at    timestamptz      NOT NULL,
    finished_at   timestamptz,
    lease_until   timestamptz,
    omitted_bytes bigint,
    claim_id      uuid             NOT NULL,
    generation    integer          NOT NULL,
    attempt       integer          NOT NULL,
    state         once.claim_state NOT NULL,
    subject       text             COLLATE "C" NOT NULL,
    key           text             COLLATE "C" NOT NULL,
    fingerprint   bytea,
    result        bytea,
    content_type  text,
    meta          jsonb,
    checkpoints   jsonb,
    note          text
);

COMMENT ON TABLE once.claim_template IS 'the columns of a generation; always empty';
COMMENT ON COLUMN once.claim_template.claimed_at IS 'when this attempt took the key; of a deferred claim, when its transaction began';
COMMENT ON COLUMN once.claim_template.finished_at IS 'when it was completed or failed; retention counts from here';
COMMENT ON COLUMN once.claim_template.lease_until IS 'end of the lease, where the claim is leased; of a token, when it expires';
COMMENT ON COLUMN once.claim_template.omitted_bytes IS 'size of a result that was too large to be stored';
COMMENT ON COLUMN once.claim_template.claim_id IS 'identity of this claim, never used again';
COMMENT ON COLUMN once.claim_template.attempt IS 'fencing number, grows at every takeover';
COMMENT ON COLUMN once.claim_template.fingerprint IS 'digest of the request; NULL: not compared; of a token, digest of the subject that it was issued to';
COMMENT ON COLUMN once.claim_template.result IS 'the stored result, given back to every duplicate';
COMMENT ON COLUMN once.claim_template.checkpoints IS 'results of the named steps that a leased claim has behind it';
COMMENT ON COLUMN once.claim_template.note IS 'why the claim was abandoned or parked';
COMMENT ON COLUMN once.claim_template.meta IS 'small metadata of the result: status, headers';
