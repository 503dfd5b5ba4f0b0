CREATE TABLE once.generation (
    scope_id       integer     NOT NULL,
    generation     integer     NOT NULL,
    opened_at      timestamptz,
    sealed_at      timestamptz,
    drained_at     timestamptz,
    unlinked_at    timestamptz,
    detached_at    timestamptz,
    dropped_at     timestamptz,
    carried        bigint      NOT NULL DEFAULT 0,
    waits_for      text[],
    waits_since    timestamptz,
    CONSTRAINT generation_pk PRIMARY KEY (scope_id, generation),
    CONSTRAINT generation_scope_fk FOREIGN KEY (scope_id) REFERENCES once.scope ON DELETE CASCADE
);

COMMENT ON TABLE once.generation IS
    'one row a generation; the newest of its times says what state it is in, and the row stays when the generation is dropped';
COMMENT ON COLUMN once.generation.opened_at IS 'when an epoch that inserts into it became current; NULL: published only';
COMMENT ON COLUMN once.generation.sealed_at IS 'when an epoch that only probes it became current';
COMMENT ON COLUMN once.generation.drained_at IS 'from here on no transaction that could have inserted into it was running';
COMMENT ON COLUMN once.generation.unlinked_at IS 'when an epoch that does not probe it became current';
COMMENT ON COLUMN once.generation.carried IS 'rows moved to a newer generation because they must outlive this one';
COMMENT ON COLUMN once.generation.waits_for IS 'the transactions that the drain waits for, as pg_locks.virtualtransaction names them';
COMMENT ON COLUMN once.generation.waits_since IS 'when waits_for was noted; a server started later invalidates the note';
