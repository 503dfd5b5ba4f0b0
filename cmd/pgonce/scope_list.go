package main

import (
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
)

func newScopeListCommand(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the scopes, their policies and what they hold",
		Long: `List the scopes, their policies and what they hold. Rows are estimates of the statistics system.

JSON: an array of scopes, by name: ` + scopeJSON + `.`,
		Example: `  pgonce scope list
  pgonce scope list --output json | jq -r '.[] | select(.maintained_at == null) | .name'`,
		Args: cobra.NoArgs,
		RunE: e.onDatabase(func(cmd *cobra.Command, pool *pgxpool.Pool, _ []string) error {
			all, err := scopes(cmd.Context(), pool, nil)
			if err != nil {
				return err
			}
			return e.print(all, func(w io.Writer) {
				fmt.Fprintln(w, "SCOPE\tWINDOW\tRETRY HORIZON\tGENERATIONS\tLEASE\tATTEMPTS\tON EXPIRY\tSUBJECT\tARCHIVE\tROWS\tSIZE")
				for _, s := range all {
					subject := "optional"
					if s.SubjectRequired {
						subject = "required"
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%d\t%s\t%s\t%s\t%d\t%s\n", s.Name, s.DedupWindow, s.RetryHorizon, s.Generations,
						s.Lease, s.MaxAttempts, s.OnExpiry, subject, s.Archive, s.RowsEstimate, bytesText(s.Bytes))
				}
			})
		}),
	}
}
