// Package migrate installs and upgrades the schema once in a database: golang-migrate over the SQL that this module
// embeds.
//
// Call [Up] where the program starts, or in a step of its own before the roll-out. The role needs CREATE on the
// database when the schema is not there yet, and owns the schema from then on. When there is nothing to do, Up changes
// nothing and asks for no more than the right to read the version. A schema that psql installed from install.sql has
// its version recorded, and is upgraded from there.
//
// Migrate over a direct connection. The lock that keeps two migrations apart belongs to a session, and a pooler in
// transaction mode, such as PgBouncer, gives the session to somebody else after every transaction.
//
// The migrate command of golang-migrate can read and force the version (x-migrations-table="once"."schema_migrations",
// x-migrations-table-quoted=1), but should not run while Up does: it derives its lock from the URL, and takes another.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/golang-migrate/migrate/v4/source"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgonce/pgonce/sql/schema"
)

// Up brings the schema to the newest version that this module knows. It uses one connection of pool, and leaves the
// pool open. Any number of processes may call it at once: one migrates, the others wait for it.
//
// It returns a [*DirtyError] when a migration failed, now or earlier, and a [*NewerError] when the schema is newer than
// this module; it leaves such a schema alone. errors.As finds the *pgconn.PgError of a failure.
//
// When ctx ends, Up stops waiting for a connection or for another migration. A migration that has begun is finished
// first, since stopping in the middle would leave the version dirty; those after it are not begun, and the error is
// that of ctx. To bound how long a migration waits for a table, set lock_timeout on the pool's connections.
func Up(ctx context.Context, pool *pgxpool.Pool) error {
	return up(ctx, pool, schema.Migrations)
}

func up(ctx context.Context, pool *pgxpool.Pool, fsys fs.FS) error {
	src, latest, err := open(fsys)
	if err != nil {
		return err
	}
	s, err := openSession(ctx, pool)
	if err != nil {
		return fmt.Errorf("migrate: connecting: %w", err)
	}
	defer s.close()
	unlock, err := s.lock(ctx)
	if err != nil {
		return fmt.Errorf("migrate: waiting for the lock: %w", err)
	}
	defer unlock()

	state, err := readState(ctx, s.conn(), latest)
	switch {
	case err != nil:
		return err
	case state.Dirty:
		return dirtyError(src, state.Version, nil)
	case state.Version > latest:
		return &NewerError{Version: state.Version, Latest: latest}
	case state.Version == latest:
		return nil
	}
	if err := s.prepare(ctx); err != nil {
		return fmt.Errorf("migrate: creating the schema: %w", err)
	}
	failure := s.migrate(ctx, src, latest)

	// The lock is still held: what is read now is what this call has left.
	state, err = readState(context.WithoutCancel(ctx), s.conn(), latest)
	switch {
	case err == nil && state.Dirty:
		return dirtyError(src, state.Version, failure)
	case failure != nil:
		return fmt.Errorf("migrate: %w", failure)
	case err != nil:
		return err
	case state.Version < latest:
		return fmt.Errorf("migrate: stopped at version %d of %d: %w", state.Version, latest, context.Cause(ctx))
	}
	return nil
}

// open returns the migrations of fsys, and the number of the newest.
func open(fsys fs.FS) (source.Driver, uint, error) {
	src, err := iofs.New(fsys, "migrations")
	if err != nil {
		return nil, 0, fmt.Errorf("migrate: reading the embedded migrations: %w", err)
	}
	var latest uint
	next, err := src.First()
	for err == nil {
		latest = next
		next, err = src.Next(latest)
	}
	if latest == 0 || !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, fmt.Errorf("migrate: reading the embedded migrations: %w", err)
	}
	return src, latest, nil
}
