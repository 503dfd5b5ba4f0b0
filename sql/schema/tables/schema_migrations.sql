-- The version table of golang-migrate, with the columns that its pgx driver expects. It is declared here so that an
-- installation by psql and one by migration are the same, and either can be upgraded by the other.
CREATE TABLE IF NOT EXISTS once.schema_migrations (
    version bigint  NOT NULL PRIMARY KEY,
    dirty   boolean NOT NULL
);

COMMENT ON TABLE once.schema_migrations IS 'schema version of pgonce, as golang-migrate keeps it';
