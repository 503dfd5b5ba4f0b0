package main

import (
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pgonce/pgonce/migrate"
)

type migrateOutput struct {
	Version uint `json:"version"`
	Latest  uint `json:"latest"`
	Dirty   bool `json:"dirty"`
}

func newMigrateCommand(e *env) *cobra.Command {
	cmd := newGroup("migrate", "Install and upgrade the schema", "Install and upgrade the schema once in a database.")
	cmd.AddCommand(newMigrateUpCommand(e), newMigrateStatusCommand(e))
	return cmd
}

func newMigrateUpCommand(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Install the schema, or upgrade it to this program's version",
		Long: `Install the schema, or upgrade it to this program's version. Where there is nothing to do, nothing is done. Any
number of processes may do so at once. Connect directly, not through a pooler in transaction mode.

JSON: version (installed; 0: not), latest (that this program knows), dirty (a migration was begun and not finished).`,
		Example: `  pgonce migrate up
  pgonce migrate up --database-url postgres://owner@db.internal/app`,
		Args: cobra.NoArgs,
		RunE: e.onDatabase(func(cmd *cobra.Command, pool *pgxpool.Pool, _ []string) error {
			if err := migrate.Up(cmd.Context(), pool); err != nil {
				return err
			}
			return e.printMigration(cmd, pool)
		}),
	}
}

func newMigrateStatusCommand(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the version of the schema",
		Long: `Show the version of the schema. Changes nothing and waits for nobody.

JSON: version (installed; 0: not), latest (that this program knows), dirty (a migration was begun and not finished).`,
		Example: `  pgonce migrate status
  pgonce migrate status --output json | jq -e '.version == .latest and (.dirty | not)'`,
		Args: cobra.NoArgs,
		RunE: e.onDatabase(func(cmd *cobra.Command, pool *pgxpool.Pool, _ []string) error {
			return e.printMigration(cmd, pool)
		}),
	}
}

func (e *env) printMigration(cmd *cobra.Command, pool *pgxpool.Pool) error {
	state, err := migrate.Status(cmd.Context(), pool)
	if err != nil {
		return err
	}
	return e.print(migrateOutput(state), func(w io.Writer) {
		switch {
		case state.Dirty:
			fmt.Fprintf(w, "version %d of the schema is being installed, or failed to be: try pgonce migrate up\n", state.Version)
		case state.Version == 0:
			fmt.Fprintf(w, "the schema is not installed; this program has version %d\n", state.Latest)
		default:
			fmt.Fprintf(w, "the schema is at version %d of %d\n", state.Version, state.Latest)
		}
	})
}
