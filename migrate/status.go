package migrate

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgonce/pgonce/sql/schema"
)

// State is how a database's schema compares with this module.
type State struct {
	Version uint // installed; 0 when the schema is not installed
	Latest  uint // newest that this module knows
	Dirty   bool // Version was begun and has not finished: it is running, or see DirtyError
}

// Status reads the schema version of a database. It waits for no lock and needs no more than the right to read
// once.schema_migrations.
func Status(ctx context.Context, pool *pgxpool.Pool) (State, error) {
	_, latest, err := open(schema.Migrations)
	if err != nil {
		return State{}, err
	}
	return readState(ctx, pool, latest)
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func readState(ctx context.Context, q querier, latest uint) (State, error) {
	s := State{Latest: latest}
	var exists bool
	err := q.QueryRow(ctx, "SELECT to_regclass('once.schema_migrations') IS NOT NULL", pgx.QueryExecModeExec).Scan(&exists)
	if err == nil && exists {
		err = q.QueryRow(ctx, "SELECT version, dirty FROM once.schema_migrations", pgx.QueryExecModeExec).
			Scan(&s.Version, &s.Dirty)
		if errors.Is(err, pgx.ErrNoRows) {
			err = nil
		}
	}
	if err != nil {
		return State{}, fmt.Errorf("migrate: reading the schema version: %w", err)
	}
	return s, nil
}
