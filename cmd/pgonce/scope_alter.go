package main

import (
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pgonce/pgonce/db"
)

func newScopeAlterCommand(e *env) *cobra.Command {
	var policy policyFlags
	cmd := &cobra.Command{
		Use:   "alter NAME",
		Short: "Change the policy of a scope",
		Long: `Change the policy of a scope, at once. What is not given stays as it is. A shorter window forgets keys earlier. Whether
a subject is required cannot be changed.

JSON: the scope, as in pgonce scope list.`,
		Example: `  pgonce scope alter pay_callback --window '14 days'
  pgonce scope alter pay_callback --rotate-rows 5000000 --archive discard`,
		Args: cobra.ExactArgs(1),
	}
	policy.add(cmd)
	cmd.RunE = e.onDatabase(func(cmd *cobra.Command, pool *pgxpool.Pool, args []string) error {
		params := policy.params(cmd, args[0])
		if params == (db.AlterScopeParams{Name: args[0]}) {
			return usagef("nothing to change: give at least one flag of the policy")
		}
		if err := db.New(pool).AlterScope(cmd.Context(), params); err != nil {
			return err
		}
		return e.printScope(cmd, pool, args[0], "changed")
	})
	return cmd
}
