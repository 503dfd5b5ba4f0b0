package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pgonce/pgonce/db"
)

type claimOutput struct {
	Outcome           string          `json:"outcome"`
	Attempt           int32           `json:"attempt"`
	ClaimID           *string         `json:"claim_id"`
	RetryAfterSeconds *float64        `json:"retry_after_seconds"`
	Result            *string         `json:"result"`
	ResultBase64      *string         `json:"result_base64"`
	ContentType       *string         `json:"content_type"`
	Meta              json.RawMessage `json:"meta"`
	OmittedBytes      *int64          `json:"omitted_bytes"`
	FinishedAt        *time.Time      `json:"finished_at"`
}

func newClaimCommand(e *env) *cobra.Command {
	var subject, fingerprint, wait string
	var strict bool
	cmd := &cobra.Command{
		Use:   "claim SCOPE KEY",
		Short: "Take a key",
		Long: `Take a key, and show what became of it. Exactly one claim of a key wins inside the scope's window:

  fresh        yours: do the work, then pgonce complete, fail or release with the claim_id and attempt shown here
  replay       done before: the stored result is attached
  in_progress  claimed by another, and not finished: ask again after retry_after
  mismatch     the key was used with another fingerprint
  failed       refused before, for good: the refusal is attached
  parked       needs a human

Every outcome exits with 0: read it from the output. The claim is committed when the command returns: if the work is never
completed, failed or released, later claims of the key are in_progress. In a business transaction call once.claim instead.

JSON: outcome, attempt, claim_id, retry_after_seconds, result, result_base64, content_type, meta, omitted_bytes (size of a
result that was too large to be stored), finished_at. ` + resultHelp,
		Example: `  pgonce claim pay_callback evt_1
  pgonce claim http_orders 4711 --subject tenant_7 --fingerprint-hex "$(sha256sum < body | cut -c1-64)" --strict
  if [ "$(pgonce claim nightly "$(date +%F)" --output json | jq -r .outcome)" = fresh ]; then run-nightly; fi`,
		Args: cobra.ExactArgs(2),
	}
	cmd.Flags().StringVar(&subject, "subject", "", "tenant or user that the key belongs to")
	cmd.Flags().StringVar(&fingerprint, "fingerprint-hex", "", "digest of the request, in `hex`: the key with another one is a mismatch")
	cmd.Flags().StringVar(&wait, "wait", "", "how long to wait for a transaction that holds the key (`interval`); default: until it ends")
	cmd.Flags().BoolVar(&strict, "strict", false, "do not wait at all")
	cmd.MarkFlagsMutuallyExclusive("wait", "strict")
	cmd.RunE = e.onDatabase(func(cmd *cobra.Command, pool *pgxpool.Pool, args []string) error {
		digest, err := decodeHex(given(cmd, "fingerprint-hex", &fingerprint))
		if err != nil {
			return err
		}
		params := db.ClaimTextParams{
			Scope: args[0], Key: args[1], Subject: subject, Fingerprint: digest, Wait: given(cmd, "wait", &wait),
		}
		if strict {
			none := "0"
			params.Wait = &none
		}
		answer, err := db.New(pool).ClaimText(cmd.Context(), params)
		if err != nil {
			return err
		}
		return e.printClaim(answer)
	})
	return cmd
}

func (e *env) printClaim(answer db.ClaimResult) error {
	out := claimOutput{
		Outcome:      string(answer.Outcome),
		Attempt:      answer.Attempt,
		ClaimID:      uuidText(answer.ClaimID),
		ContentType:  answer.ContentType,
		Meta:         answer.Meta,
		OmittedBytes: answer.OmittedBytes,
		FinishedAt:   utc(answer.FinishedAt),
	}
	out.Result, out.ResultBase64 = resultText(answer.Result)
	if answer.RetryAfter != nil {
		seconds := answer.RetryAfter.Seconds()
		out.RetryAfterSeconds = &seconds
	}
	return e.print(out, func(w io.Writer) {
		fmt.Fprintf(w, "outcome\t%s\nattempt\t%d\n", out.Outcome, out.Attempt)
		optional(w, "claim_id", out.ClaimID)
		if answer.RetryAfter != nil {
			fmt.Fprintf(w, "retry_after\t%v\n", answer.RetryAfter.Round(time.Millisecond))
		}
		printResult(w, out.Result, out.ResultBase64, out.ContentType, out.Meta, out.OmittedBytes)
		if out.FinishedAt != nil {
			fmt.Fprintf(w, "finished_at\t%s\n", cell(out.FinishedAt))
		}
	})
}

func printResult(w io.Writer, text, encoded, contentType *string, meta json.RawMessage, omitted *int64) {
	optional(w, "result", text)
	optional(w, "result_base64", encoded)
	optional(w, "content_type", contentType)
	if meta != nil {
		fmt.Fprintf(w, "meta\t%s\n", meta)
	}
	if omitted != nil {
		fmt.Fprintf(w, "omitted\t%s\n", bytesText(*omitted))
	}
}

func optional(w io.Writer, name string, value *string) {
	if value != nil {
		fmt.Fprintf(w, "%s\t%s\n", name, *value)
	}
}

func uuidText(id pgtype.UUID) *string {
	if !id.Valid {
		return nil
	}
	text := id.String()
	return &text
}

func decodeHex(text *string) ([]byte, error) {
	if text == nil {
		return nil, nil
	}
	digest, err := hex.DecodeString(*text)
	if err != nil {
		return nil, usagef("invalid argument %q for --fingerprint-hex: %v", *text, err)
	}
	if len(digest) == 0 {
		return nil, usagef("--fingerprint-hex is empty: leave it out if there is no fingerprint")
	}
	return digest, nil
}
