CREATE TABLE once.scope_grant (
    scope_id   integer     NOT NULL,
    role       regrole     NOT NULL,
    granted_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT scope_grant_pk PRIMARY KEY (scope_id, role),
    CONSTRAINT scope_grant_scope_fk FOREIGN KEY (scope_id) REFERENCES once.scope ON DELETE CASCADE
);

COMMENT ON TABLE once.scope_grant IS 'roles that may claim in a scope; the functions of every new epoch are granted to them';
