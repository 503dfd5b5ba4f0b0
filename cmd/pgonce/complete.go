package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pgonce/pgonce/db"
)

func newCompleteCommand(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "complete SCOPE KEY",
		Short: "End a claim as done",
		Long: `End a claim as done, and store its result, which every later claim of the key is given (replay). Without --result none is
stored. If the claim is not, or no longer, the current one, nothing changes and the command fails (ON007).

JSON: scope, subject, key, state (done).`,
		Example: `  pgonce complete pay_callback evt_1 --claim-id "$id" --attempt 1
  pgonce complete http_orders 4711 --claim-id "$id" --attempt 1 --content-type application/json --result - < answer.json`,
		Args: cobra.ExactArgs(2),
	}
	e.settles(cmd, "done", func(ctx context.Context, q *db.Queries, p db.CompleteParams) error {
		return q.Complete(ctx, p)
	})
	return cmd
}
