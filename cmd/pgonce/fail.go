package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pgonce/pgonce/db"
)

func newFailCommand(e *env) *cobra.Command {
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
	e.settles(cmd, "failed", func(ctx context.Context, q *db.Queries, p db.CompleteParams) error {
		return q.Fail(ctx, db.FailParams(p))
	})
	return cmd
}
