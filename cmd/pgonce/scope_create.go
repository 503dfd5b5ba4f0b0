package main

import (
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pgonce/pgonce/db"
)

func newScopeCreateCommand(e *env) *cobra.Command {
	var policy policyFlags
	var subjectRequired bool
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a scope",
		Long: `Create a scope. NAME is 1 to 32 characters: a lower-case letter, then lower-case letters, digits and underscores.

The window and the retry horizon must be stated, and the window must be longer: a caller that still retries after the window
finds its key forgotten. The rest has defaults: 2 generations, no rotation by rows, a lease of 1 minute, 5 attempts, takeover,
results up to 1 MiB, no subject, keep.

JSON: the scope, as in pgonce scope list.`,
		Example: `  pgonce scope create pay_callback --window '7 days' --retry-horizon '3 days'
  pgonce scope create http_orders --window 48h --retry-horizon 24h --subject-required --archive discard`,
		Args: cobra.ExactArgs(1),
	}
	policy.add(cmd)
	cmd.Flags().BoolVar(&subjectRequired, "subject-required", false, "every key belongs to a subject (a tenant, a user); cannot be changed later")
	cmd.RunE = e.onDatabase(func(cmd *cobra.Command, pool *pgxpool.Pool, args []string) error {
		ctx := cmd.Context()
		params := policy.params(cmd, args[0])
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			queries := db.New(tx)
			if err := queries.CreateScope(ctx, db.CreateScopeParams{
				Name:            params.Name,
				DedupWindow:     params.DedupWindow,
				RetryHorizon:    params.RetryHorizon,
				SubjectRequired: subjectRequired,
			}); err != nil {
				return err
			}
			return queries.AlterScope(ctx, params)
		})
		if err != nil {
			return err
		}
		return e.printScope(cmd, pool, args[0], "created")
	})
	return cmd
}

// printScope says what became of a scope.
func (e *env) printScope(cmd *cobra.Command, pool *pgxpool.Pool, name, what string) error {
	scope, err := oneScope(cmd.Context(), pool, name)
	if err != nil {
		return err
	}
	return e.print(scope, func(w io.Writer) {
		fmt.Fprintf(w, "scope %s %s: window %s, retry horizon %s\n", scope.Name, what, scope.DedupWindow, scope.RetryHorizon)
	})
}
