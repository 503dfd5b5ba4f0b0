CREATE TABLE once.scope (
    scope_id              integer     GENERATED ALWAYS AS IDENTITY,
    name                  text        COLLATE "C" NOT NULL,
    dedup_window          interval    NOT NULL,
    retry_horizon         interval    NOT NULL,
    generations           integer     NOT NULL,
    rotate_rows           bigint,
    lease                 interval    NOT NULL,
    max_attempts          integer     NOT NULL,
    on_expiry             text        NOT NULL,
    max_result_bytes      integer     NOT NULL,
    subject_required      boolean     NOT NULL,
    archive               text        NOT NULL,
    session_length        interval,
    created_at            timestamptz NOT NULL DEFAULT now(),
    maintained_at         timestamptz,
    CONSTRAINT scope_pk PRIMARY KEY (scope_id),
    CONSTRAINT scope_name_uq UNIQUE (name),
    CONSTRAINT scope_name_ck CHECK (
        name ~ '^[a-z][a-z0-9_]{0,31}$' AND name !~ '(_g[0-9]+|_fence|_seed|_pk|_open_idx)$'),
    CONSTRAINT scope_window_ck CHECK (dedup_window > retry_horizon AND dedup_window >= interval '1 second'),
    CONSTRAINT scope_retry_horizon_ck CHECK (retry_horizon > interval '0'),
    CONSTRAINT scope_generations_ck CHECK (generations BETWEEN 1 AND 12),
    CONSTRAINT scope_rotate_rows_ck CHECK (rotate_rows > 0),
    CONSTRAINT scope_lease_ck CHECK (lease > interval '0'),
    CONSTRAINT scope_max_attempts_ck CHECK (max_attempts > 0),
    CONSTRAINT scope_on_expiry_ck CHECK (on_expiry IN ('takeover', 'park')),
    CONSTRAINT scope_max_result_bytes_ck CHECK (max_result_bytes BETWEEN 1024 AND 67108864),
    CONSTRAINT scope_session_length_ck CHECK (session_length > interval '0'),
    CONSTRAINT scope_archive_ck CHECK (archive IN ('keep', 'discard'))
);

COMMENT ON TABLE once.scope IS 'one row a scope: a namespace of keys with one policy';
COMMENT ON COLUMN once.scope.name IS 'prefix of everything the scope has in once_data';
COMMENT ON COLUMN once.scope.dedup_window IS 'how long a finished key is recognised, at least';
COMMENT ON COLUMN once.scope.retry_horizon IS 'how long any caller may still retry; always shorter than the window';
COMMENT ON COLUMN once.scope.generations IS 'generations a window: the open one is rotated after dedup_window / generations';
COMMENT ON COLUMN once.scope.rotate_rows IS 'rotate earlier when the open generation holds this many rows; NULL: by age only';
COMMENT ON COLUMN once.scope.lease IS 'length of a lease, for claims that are leased';
COMMENT ON COLUMN once.scope.max_attempts IS 'attempts at one key before it is parked, for claims that are leased';
COMMENT ON COLUMN once.scope.on_expiry IS 'what an expired lease leads to: takeover by the next caller, or park';
COMMENT ON COLUMN once.scope.max_result_bytes IS 'a larger result is not stored, only its size';
COMMENT ON COLUMN once.scope.subject_required IS 'whether every key belongs to a subject (a tenant, a user)';
COMMENT ON COLUMN once.scope.archive IS 'keep: no generation is retired; discard: a retired generation is dropped';
COMMENT ON COLUMN once.scope.session_length IS 'how long a user may sit over a page, so a token lasts at least as long; NULL: the scope issues no tokens';
COMMENT ON COLUMN once.scope.maintained_at IS 'when maintain last finished its round over this scope';
