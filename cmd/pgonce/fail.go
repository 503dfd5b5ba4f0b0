package main

import (
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pgonce/pgonce/db"
)

func newFailCommand(e *env) *cobra.Command {
	var claim claimFlags
	var stored resultFlags
	cmd := &cobra.Command{
		Use:   "fail SCOPE KEY",
		Short: "End a claim as failed for good",
		Long: `End a claim as failed for good, and store the refusal, which every later claim of the key is given (failed). For what a
retry may change, use pgonce release. If the claim is not, or no longer, the current one, nothing changes and the command
fails (ON007).

JSON: scope, subject, key, state (failed).`,
		Example: `  pgonce fail pay_callback evt_1 --claim-id "$id" --attempt 1 --result 'the card is declined'`,
		Args:    cobra.ExactArgs(2),
	}
	claim.add(cmd)
	stored.add(cmd)
	cmd.RunE = e.onDatabase(func(cmd *cobra.Command, pool *pgxpool.Pool, args []string) error {
		id, err := claim.id()
		if err != nil {
			return err
		}
		result, meta, err := stored.read(cmd)
		if err != nil {
			return err
		}
		err = db.New(pool).Fail(cmd.Context(), db.FailParams{
			Scope: args[0], Key: args[1], Subject: claim.subject, ClaimID: id, Attempt: claim.attempt,
			Result: result, ContentType: given(cmd, "content-type", &stored.contentType), Meta: meta,
		})
		if err != nil {
			return err
		}
		return e.printSettled(args, claim.subject, "failed")
	})
	return cmd
}
