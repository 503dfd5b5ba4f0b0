package main

import (
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pgonce/pgonce/db"
)

func newScopeRevokeCommand(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME ROLE",
		Short: "Take back what grant gave",
		Long: `Take back what pgonce scope grant gave a role for one scope.

JSON: scope, role, granted.`,
		Example: `  pgonce scope revoke pay_callback billing`,
		Args:    cobra.ExactArgs(2),
		RunE: e.onDatabase(func(cmd *cobra.Command, pool *pgxpool.Pool, args []string) error {
			if err := db.New(pool).RevokeScope(cmd.Context(), db.RevokeScopeParams{Name: args[0], Role: args[1]}); err != nil {
				return err
			}
			return e.print(grantOutput{args[0], args[1], false}, func(w io.Writer) {
				fmt.Fprintf(w, "%s may not claim in %s any more\n", args[1], args[0])
			})
		}),
	}
}
