package main

import (
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pgonce/pgonce/db"
)

func newReleaseCommand(e *env) *cobra.Command {
	var claim claimFlags
	cmd := &cobra.Command{
		Use:   "release SCOPE KEY",
		Short: "Give a claim back",
		Long: `Give an unfinished claim back, so that the key can be claimed again. Only for work that certainly had no effect. If the
claim is not, or no longer, the current one, nothing changes and the command fails (ON007).

JSON: scope, subject, key, state (released).`,
		Example: `  pgonce release pay_callback evt_1 --claim-id "$id" --attempt 1`,
		Args:    cobra.ExactArgs(2),
	}
	claim.add(cmd)
	cmd.RunE = e.onDatabase(func(cmd *cobra.Command, pool *pgxpool.Pool, args []string) error {
		id, err := claim.id()
		if err != nil {
			return err
		}
		err = db.New(pool).Release(cmd.Context(), db.ReleaseParams{
			Scope: args[0], Key: args[1], Subject: claim.subject, ClaimID: id, Attempt: claim.attempt,
		})
		if err != nil {
			return err
		}
		return e.printSettled(args, claim.subject, "released")
	})
	return cmd
}
