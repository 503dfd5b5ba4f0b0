package migrate

import (
	"errors"
	"fmt"

	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/source"
	"github.com/jackc/pgx/v5/pgconn"
)

// DirtyError says that a migration was begun and did not finish: it failed, or its process was killed. Nothing is
// migrated until somebody has looked and forced a version; Error says which, and the statement that does it.
type DirtyError struct {
	Version uint  // the migration that did not finish
	Force   int   // the version to force when its changes were rolled back; -1 means no version at all
	Err     error // why it failed; nil when that was an earlier call
}

// Error implements error.
func (e *DirtyError) Error() string {
	// A migration is one transaction. Only a crash between its commit and the clearing of the mark leaves its changes.
	if e.Err != nil {
		return fmt.Sprintf("migrate: version %d failed: %v; its changes were rolled back, but it is marked dirty: "+
			"remove the cause, force version %d (%s), then migrate again", e.Version, e.Err, e.Force, forceSQL(e.Force))
	}
	return fmt.Sprintf("migrate: version %d is marked dirty: an earlier migration failed or was killed; "+
		"if its changes are not in the database, remove the cause, force version %d (%s), then migrate again; "+
		"if they are, force version %d (%s)", e.Version, e.Force, forceSQL(e.Force), e.Version, forceSQL(int(e.Version)))
}

// Unwrap returns Err.
func (e *DirtyError) Unwrap() error { return e.Err }

func dirtyError(src source.Driver, version uint, err error) error {
	e := &DirtyError{Version: version, Force: -1, Err: err}
	if previous, err := src.Prev(version); err == nil {
		e.Force = int(previous)
	}
	return e
}

// forceSQL is what golang-migrate's force does, for those who do not have its command.
func forceSQL(version int) string {
	if version < 0 {
		return "DELETE FROM once.schema_migrations"
	}
	return fmt.Sprintf("UPDATE once.schema_migrations SET version = %d, dirty = false", version)
}

// NewerError says that the schema was migrated by a newer release of this module. Nothing was changed.
type NewerError struct {
	Version uint // installed
	Latest  uint // newest that this module knows
}

// Error implements error.
func (e *NewerError) Error() string {
	return fmt.Sprintf("migrate: the schema is at version %d, this release of pgonce knows versions up to %d: "+
		"use the release that migrated it, or a newer one", e.Version, e.Latest)
}

// cause takes the error of the server out of golang-migrate's, which has no Unwrap and prints the whole migration.
func cause(err error) error {
	var e database.Error
	if p := (*database.Error)(nil); errors.As(err, &p) {
		e = *p
	} else if !errors.As(err, &e) {
		return err
	}
	if e.OrigErr == nil {
		return err
	}
	// golang-migrate says line 1 when the server has said nothing.
	if pgErr := (*pgconn.PgError)(nil); errors.As(e.OrigErr, &pgErr) && pgErr.Position > 0 && e.Line > 0 {
		return fmt.Errorf("line %d: %w", e.Line, e.OrigErr)
	}
	return e.OrigErr
}
