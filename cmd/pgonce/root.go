package main

import (
	"context"

	"github.com/spf13/cobra"
)

// run executes one invocation and returns its exit status.
func run(ctx context.Context, e *env, args []string) int {
	root := newRootCommand(e)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil {
		return report(e.stderr, cmd, err)
	}
	return exitOK
}

func newRootCommand(e *env) *cobra.Command {
	e.output = outputTable
	cmd := newGroup("pgonce", "Idempotency inside PostgreSQL", `pgonce looks after pgonce in a database, and makes its functions available to scripts.

The database is that of --database-url, else of DATABASE_URL, else of libpq's variables (PGHOST, PGPORT,
PGUSER, PGPASSWORD, PGDATABASE, PGSERVICE, ...).

Tables are for humans and may change. With --output json a command writes one JSON value on one line; members
are in snake_case, they stay, and those without a value are null. Times are UTC, as in RFC 3339.

Times that are given to a command are intervals as PostgreSQL reads them: '7 days', '1 month', 90s.

Exit status: 0 done, 1 failed, 2 not understood. What was expected to happen is no failure: see pgonce claim.`)
	cmd.Example = `  pgonce migrate up
  pgonce scope create pay_callback --window '7 days' --retry-horizon '3 days'
  pgonce claim pay_callback evt_1 --output json
  pgonce maintain --every 1m`
	cmd.SilenceErrors = true
	cmd.SilenceUsage = true
	cmd.SetIn(e.stdin)
	cmd.SetOut(e.stdout)
	cmd.SetErr(e.stderr)
	cmd.PersistentFlags().Var(&e.output, "output", "table or json")
	cmd.PersistentFlags().StringVar(&e.databaseURL, "database-url", "", "connection string (`URL`) of the database")
	cmd.AddCommand(
		newMigrateCommand(e),
		newScopeCommand(e),
		newClaimCommand(e),
		newCompleteCommand(e),
		newFailCommand(e),
		newReleaseCommand(e),
		newLookupCommand(e),
		newMaintainCommand(e),
		newStatusCommand(e),
		newDemoCommand(e),
		newVersionCommand(e),
	)
	return cmd
}

// newGroup returns a command that does nothing but hold others.
func newGroup(use, short, long string) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Long:  long,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q for %q", args[0], cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usagef("%s needs a command", cmd.CommandPath())
		},
	}
}
