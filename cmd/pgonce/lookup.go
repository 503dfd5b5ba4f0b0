package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pgonce/pgonce/db"
)

type lookupOutput struct {
	State          string          `json:"state"`
	Generation     *int32          `json:"generation"`
	Attempt        *int32          `json:"attempt"`
	ClaimID        *string         `json:"claim_id"`
	FingerprintHex *string         `json:"fingerprint_hex"`
	Result         *string         `json:"result"`
	ResultBase64   *string         `json:"result_base64"`
	ContentType    *string         `json:"content_type"`
	Meta           json.RawMessage `json:"meta"`
	OmittedBytes   *int64          `json:"omitted_bytes"`
	ClaimedAt      *time.Time      `json:"claimed_at"`
	FinishedAt     *time.Time      `json:"finished_at"`
	LeaseUntil     *time.Time      `json:"lease_until"`
}

// stateUnknown is what a look-up says of a key that the scope does not know.
const stateUnknown = "unknown"

func newLookupCommand(e *env) *cobra.Command {
	var subject string
	cmd := &cobra.Command{
		Use:   "lookup SCOPE KEY",
		Short: "Show what is known of a key",
		Long: `Show what is known of a key, without claiming it: its state is in_progress, done, failed, parked, or unknown (never claimed,
released, or past the window). Waits for nobody. Every state exits with 0.

JSON: state, generation, attempt, claim_id, fingerprint_hex, result, result_base64, content_type, meta, omitted_bytes,
claimed_at, finished_at, lease_until. ` + resultHelp,
		Example: `  pgonce lookup pay_callback evt_1
  pgonce lookup http_orders 4711 --subject tenant_7 --output json`,
		Args: cobra.ExactArgs(2),
	}
	cmd.Flags().StringVar(&subject, "subject", "", "tenant or user that the key belongs to")
	cmd.RunE = e.onDatabase(func(cmd *cobra.Command, pool *pgxpool.Pool, args []string) error {
		row, err := db.New(pool).Lookup(cmd.Context(), db.LookupParams{Scope: args[0], Key: args[1], Subject: subject})
		if errors.Is(err, pgx.ErrNoRows) {
			return e.print(lookupOutput{State: stateUnknown}, func(w io.Writer) { fmt.Fprintf(w, "state\t%s\n", stateUnknown) })
		}
		if err != nil {
			return err
		}
		return e.printLookup(row)
	})
	return cmd
}

func (e *env) printLookup(row db.LookupResult) error {
	out := lookupOutput{
		State:        string(row.State),
		Generation:   &row.Generation,
		Attempt:      &row.Attempt,
		ClaimID:      uuidText(row.ClaimID),
		ContentType:  row.ContentType,
		Meta:         row.Meta,
		OmittedBytes: row.OmittedBytes,
		ClaimedAt:    utc(&row.ClaimedAt),
		FinishedAt:   utc(row.FinishedAt),
		LeaseUntil:   utc(row.LeaseUntil),
	}
	out.Result, out.ResultBase64 = resultText(row.Result)
	if row.Fingerprint != nil {
		text := hex.EncodeToString(row.Fingerprint)
		out.FingerprintHex = &text
	}
	return e.print(out, func(w io.Writer) {
		fmt.Fprintf(w, "state\t%s\ngeneration\t%d\nattempt\t%d\n", out.State, row.Generation, row.Attempt)
		optional(w, "claim_id", out.ClaimID)
		optional(w, "fingerprint", out.FingerprintHex)
		printResult(w, out.Result, out.ResultBase64, out.ContentType, out.Meta, out.OmittedBytes)
		fmt.Fprintf(w, "claimed_at\t%s\n", cell(out.ClaimedAt))
		if out.FinishedAt != nil {
			fmt.Fprintf(w, "finished_at\t%s\n", cell(out.FinishedAt))
		}
		if out.LeaseUntil != nil {
			fmt.Fprintf(w, "lease_until\t%s\n", cell(out.LeaseUntil))
		}
	})
}
