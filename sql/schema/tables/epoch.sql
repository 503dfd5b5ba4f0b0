CREATE TABLE once.epoch (
    scope_id     integer     NOT NULL,
    epoch        bigint      NOT NULL,
    generation   integer     NOT NULL,
    sealed       integer[]   NOT NULL,
    published_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    switched_at  timestamptz,
    settled_at   timestamptz,
    waits_for    text[],
    waits_since  timestamptz,
    CONSTRAINT epoch_pk PRIMARY KEY (scope_id, epoch),
    CONSTRAINT epoch_scope_fk FOREIGN KEY (scope_id) REFERENCES once.scope ON DELETE CASCADE
);

COMMENT ON TABLE once.epoch IS
    'one row an epoch whose functions exist: which generation it inserts into and which it probes. Current is the one that the scope''s fence names';
COMMENT ON COLUMN once.epoch.generation IS 'the open generation';
COMMENT ON COLUMN once.epoch.sealed IS 'the sealed generations it probes, newest first';
COMMENT ON COLUMN once.epoch.switched_at IS 'when the fence was moved to it';
COMMENT ON COLUMN once.epoch.settled_at IS 'when every transaction older than the switch was seen to have ended';
COMMENT ON COLUMN once.epoch.waits_for IS 'the transactions older than the switch, as pg_locks.virtualtransaction names them';
COMMENT ON COLUMN once.epoch.waits_since IS 'when waits_for was noted; a server started later invalidates the note';
