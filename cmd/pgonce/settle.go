package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pgonce/pgonce/db"
)

type settleOutput struct {
	Scope   string `json:"scope"`
	Subject string `json:"subject"`
	Key     string `json:"key"`
	State   string `json:"state"`
}

// claimFlags name the claim that complete, fail and release end.
type claimFlags struct {
	subject, claimID string
	attempt          int32
}

func (c *claimFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.subject, "subject", "", "tenant or user that the key belongs to, as it was claimed")
	cmd.Flags().StringVar(&c.claimID, "claim-id", "", "claim_id of the fresh claim (`uuid`)")
	cmd.Flags().Int32Var(&c.attempt, "attempt", 0, "attempt of the fresh claim")
	for _, name := range []string{"claim-id", "attempt"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag is defined above
		}
	}
}

func (c *claimFlags) id() (id pgtype.UUID, err error) {
	if err := id.Scan(c.claimID); err != nil {
		return id, usagef("invalid argument %q for --claim-id: it is no UUID", c.claimID)
	}
	return id, nil
}

// resultFlags are the result that complete and fail store.
type resultFlags struct {
	result, contentType, meta string
}

func (r *resultFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.result, "result", "", "`text` to store and give to every duplicate; - reads it from standard input")
	cmd.Flags().StringVar(&r.contentType, "content-type", "", "media type of the result")
	cmd.Flags().StringVar(&r.meta, "meta", "", "small metadata of the result, as `JSON`")
}

// read returns the result, nil for none, and its metadata.
func (r *resultFlags) read(cmd *cobra.Command) (result []byte, meta json.RawMessage, err error) {
	if text := given(cmd, "meta", &r.meta); text != nil {
		meta = json.RawMessage(*text)
		if !json.Valid(meta) {
			return nil, nil, usagef("invalid argument %q for --meta: it is no JSON", *text)
		}
	}
	switch {
	case !cmd.Flags().Changed("result"):
		return nil, meta, nil
	case r.result == "-":
		result, err = io.ReadAll(cmd.InOrStdin())
		return result, meta, err
	default:
		return []byte(r.result), meta, nil
	}
}

// settles makes cmd end a claim with a result: complete and fail differ in what they call.
func (e *env) settles(cmd *cobra.Command, state string, settle func(context.Context, *db.Queries, db.CompleteParams) error) {
	var claim claimFlags
	var stored resultFlags
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
		err = settle(cmd.Context(), db.New(pool), db.CompleteParams{
			Scope: args[0], Key: args[1], Subject: claim.subject, ClaimID: id, Attempt: claim.attempt,
			Result: result, ContentType: given(cmd, "content-type", &stored.contentType), Meta: meta,
		})
		if err != nil {
			return err
		}
		return e.printSettled(args, claim.subject, state)
	})
}

func (e *env) printSettled(args []string, subject, state string) error {
	return e.print(settleOutput{Scope: args[0], Subject: subject, Key: args[1], State: state}, func(w io.Writer) {
		fmt.Fprintln(w, state)
	})
}
