package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pgonce/pgonce/db"
)

type statusOutput struct {
	Scopes      []scopeOutput      `json:"scopes"`
	Generations []generationOutput `json:"generations"`
	InFlight    []inFlightOutput   `json:"in_flight"`
	Holders     []holderOutput     `json:"holders"`
}

type generationOutput struct {
	Scope        string     `json:"scope"`
	Generation   int32      `json:"generation"`
	State        string     `json:"state"`
	OpenedAt     *time.Time `json:"opened_at"`
	SealedAt     *time.Time `json:"sealed_at"`
	DrainedAt    *time.Time `json:"drained_at"`
	Droppable    bool       `json:"droppable"`
	Carried      int64      `json:"carried"`
	RowsEstimate int64      `json:"rows_estimate"`
	Bytes        int64      `json:"bytes"`
}

type inFlightOutput struct {
	Scope  string        `json:"scope"`
	State  db.ClaimState `json:"state"`
	Claims int64         `json:"claims"`
	Oldest time.Time     `json:"oldest"`
}

type holderOutput struct {
	Scope           string     `json:"scope"`
	Step            string     `json:"step"`
	Generation      *int32     `json:"generation"`
	Epoch           *int64     `json:"epoch"`
	PID             *int32     `json:"pid"`
	GID             *string    `json:"gid"`
	Since           *time.Time `json:"since"`
	Role            *string    `json:"role"`
	ApplicationName *string    `json:"application_name"`
	State           *string    `json:"state"`
	Query           *string    `json:"query"`
}

func newStatusCommand(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show scopes, generations, unfinished claims, and what holds maintenance back",
		Long: `Show scopes, their generations, claims that are committed and not finished, and the transactions that hold maintenance
back, as it last noted them. Rows are estimates of the statistics system. Claims of transactions that are running are not seen.

JSON: scopes (as in pgonce scope list); generations (scope, generation, state, opened_at, sealed_at, drained_at, droppable,
carried, rows_estimate, bytes); in_flight (scope, state, claims, oldest); holders (scope, step, generation, epoch, pid, gid,
since, role, application_name, state, query).`,
		Example: `  pgonce status
  pgonce status --output json | jq '.holders'`,
		Args: cobra.NoArgs,
		RunE: e.onDatabase(func(cmd *cobra.Command, pool *pgxpool.Pool, _ []string) error {
			var out statusOutput
			// One snapshot, so that the parts fit.
			err := pgx.BeginTxFunc(cmd.Context(), pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly},
				func(tx pgx.Tx) (err error) {
					out, err = readStatus(cmd.Context(), tx)
					return err
				})
			if err != nil {
				return err
			}
			return e.print(out, out.table)
		}),
	}
}

func readStatus(ctx context.Context, tx pgx.Tx) (out statusOutput, err error) {
	if out.Scopes, err = scopes(ctx, tx, nil); err != nil {
		return out, err
	}
	generations, err := db.New(tx).Generations(ctx, nil)
	if err != nil {
		return out, err
	}
	out.Generations = make([]generationOutput, len(generations))
	for i, g := range generations {
		g.OpenedAt, g.SealedAt, g.DrainedAt = utc(g.OpenedAt), utc(g.SealedAt), utc(g.DrainedAt)
		out.Generations[i] = generationOutput(g)
	}
	inFlight, err := db.New(tx).InFlight(ctx, nil)
	if err != nil {
		return out, err
	}
	out.InFlight = make([]inFlightOutput, len(inFlight))
	for i, f := range inFlight {
		f.Oldest = f.Oldest.UTC()
		out.InFlight[i] = inFlightOutput(f)
	}
	// sqlc does not know the catalogue views that this one stands on.
	rows, err := tx.Query(ctx, `
		SELECT scope, step, generation, epoch, pid, gid, since, role::text, application_name, state, query
		  FROM once.holders ORDER BY scope, step, since`)
	if err != nil {
		return out, err
	}
	out.Holders, err = pgx.AppendRows([]holderOutput{}, rows, func(row pgx.CollectableRow) (holderOutput, error) {
		h, err := pgx.RowToStructByPos[holderOutput](row)
		h.Since = utc(h.Since)
		return h, err
	})
	return out, err
}

func (s statusOutput) table(w io.Writer) {
	fmt.Fprintln(w, "SCOPE\tWINDOW\tARCHIVE\tEPOCH\tOPEN\tSINCE\tLIVE\tROWS\tSIZE\tMAINTAINED")
	for _, c := range s.Scopes {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%d\t%d\t%s\t%s\n", c.Name, c.DedupWindow, c.Archive, c.Epoch, c.OpenGeneration,
			cell(c.OpenSince), c.LiveGenerations, c.RowsEstimate, bytesText(c.Bytes), cell(c.MaintainedAt))
	}
	if len(s.Generations) > 0 {
		fmt.Fprintln(w, "\nGENERATION\tSTATE\tOPENED\tSEALED\tDRAINED\tDROPPABLE\tCARRIED\tROWS\tSIZE")
	}
	for _, g := range s.Generations {
		droppable := "no"
		if g.Droppable {
			droppable = "yes"
		}
		fmt.Fprintf(w, "%s %d\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n", g.Scope, g.Generation, g.State, cell(g.OpenedAt),
			cell(g.SealedAt), cell(g.DrainedAt), droppable, g.Carried, g.RowsEstimate, bytesText(g.Bytes))
	}
	if len(s.InFlight) > 0 {
		fmt.Fprintln(w, "\nIN FLIGHT\tSTATE\tCLAIMS\tOLDEST")
	}
	for _, f := range s.InFlight {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", f.Scope, f.State, f.Claims, cell(&f.Oldest))
	}
	if len(s.Holders) > 0 {
		fmt.Fprintln(w, "\nHELD BACK\tSTEP\tBY\tROLE\tSINCE\tSTATE\tQUERY")
	}
	for _, h := range s.Holders {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", h.Scope, h.step(), h.by(), text(h.Role), cell(h.Since), text(h.State), oneLine(text(h.Query)))
	}
}

// step says what is held back.
func (h holderOutput) step() string {
	switch {
	case h.Generation != nil:
		return fmt.Sprintf("%s generation %d", h.Step, *h.Generation)
	case h.Epoch != nil:
		return fmt.Sprintf("%s epoch %d", h.Step, *h.Epoch)
	default:
		return h.Step
	}
}

// by names the session or the prepared transaction.
func (h holderOutput) by() string {
	switch {
	case h.GID != nil:
		return "prepared transaction " + *h.GID
	case h.PID != nil:
		return fmt.Sprintf("pid %d", *h.PID)
	default:
		return "-"
	}
}

func text(s *string) string {
	if s == nil || *s == "" {
		return "-"
	}
	return *s
}

// oneLine shortens a query so that it fits into a table.
func oneLine(query string) string {
	const most = 60
	runes := []rune(strings.Join(strings.Fields(query), " "))
	if len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return string(runes)
}
