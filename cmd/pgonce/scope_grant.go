package main

import (
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pgonce/pgonce/db"
)

type grantOutput struct {
	Scope   string `json:"scope"`
	Role    string `json:"role"`
	Granted bool   `json:"granted"`
}

func newScopeGrantCommand(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "grant NAME ROLE",
		Short: "Let a role claim in a scope",
		Long: `Let a role claim, complete and look up keys in a scope, and nothing else: it can read no table, and nothing of other scopes.

JSON: scope, role, granted.`,
		Example: `  pgonce scope grant pay_callback billing`,
		Args:    cobra.ExactArgs(2),
		RunE: e.onDatabase(func(cmd *cobra.Command, pool *pgxpool.Pool, args []string) error {
			if err := db.New(pool).GrantScope(cmd.Context(), db.GrantScopeParams{Name: args[0], Role: args[1]}); err != nil {
				return err
			}
			return e.print(grantOutput{args[0], args[1], true}, func(w io.Writer) {
				fmt.Fprintf(w, "%s may claim in %s\n", args[1], args[0])
			})
		}),
	}
}
