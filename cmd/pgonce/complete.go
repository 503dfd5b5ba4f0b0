package main

import (
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pgonce/pgonce/db"
)

func newCompleteCommand(e *env) *cobra.Command {
	var claim claimFlags
	var stored resultFlags
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
		err = db.New(pool).Complete(cmd.Context(), db.CompleteParams{
			Scope: args[0], Key: args[1], Subject: claim.subject, ClaimID: id, Attempt: claim.attempt,
			Result: result, ContentType: given(cmd, "content-type", &stored.contentType), Meta: meta,
		})
		if err != nil {
			return err
		}
		return e.printSettled(args, claim.subject, "done")
	})
	return cmd
}
