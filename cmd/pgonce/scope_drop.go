package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pgonce/pgonce/db"
)

type dropOutput struct {
	Name         string `json:"name"`
	Dropped      bool   `json:"dropped"`
	Generations  int    `json:"generations"`
	RowsEstimate int64  `json:"rows_estimate"`
	Bytes        int64  `json:"bytes"`
	Unfinished   int64  `json:"unfinished"`
}

func (d dropOutput) String() string {
	return fmt.Sprintf("scope %s: %d generations, about %d rows, %s, %d unfinished claims",
		d.Name, d.Generations, d.RowsEstimate, bytesText(d.Bytes), d.Unfinished)
}

func newScopeDropCommand(e *env) *cobra.Command {
	var yes, dryRun, discardKeys bool
	cmd := &cobra.Command{
		Use:   "drop NAME",
		Short: "Drop a scope with its tables, functions and keys",
		Long: `Drop a scope with its tables, functions and keys. It is refused while there are keys that are unfinished or inside their
window, unless --discard-keys is given: a caller that comes again with such a key does its work again.

You are asked for the scope's name; scripts give --yes. With --dry-run nothing is dropped, and no more than what would be is
shown. Rows are an estimate of the statistics system. Whether the keys would be a reason to refuse is not looked at.

JSON: name, dropped (false with --dry-run), generations, rows_estimate, bytes, unfinished (claims in progress or parked).`,
		Example: `  pgonce scope drop pay_callback --dry-run
  pgonce scope drop pay_callback
  pgonce scope drop pay_callback --discard-keys --yes`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be dropped")
	cmd.Flags().BoolVar(&discardKeys, "discard-keys", false, "drop even keys that are unfinished or inside their window")
	cmd.RunE = e.onDatabase(func(cmd *cobra.Command, pool *pgxpool.Pool, args []string) error {
		drop, err := whatToDrop(cmd, pool, args[0])
		if err != nil {
			return err
		}
		if dryRun {
			return e.print(drop, func(w io.Writer) { fmt.Fprintf(w, "would drop %s\n", drop) })
		}
		if !yes {
			fmt.Fprintf(e.stderr, "About to drop %s.\nType the name of the scope to go on: ", drop)
			if strings.TrimSpace(e.readLine(cmd.Context())) != drop.Name {
				return errors.New("not confirmed: nothing was dropped")
			}
		}
		if err := db.New(pool).DropScope(cmd.Context(), db.DropScopeParams{Name: drop.Name, DiscardKeys: discardKeys}); err != nil {
			return err
		}
		drop.Dropped = true
		return e.print(drop, func(w io.Writer) { fmt.Fprintf(w, "dropped %s\n", drop) })
	})
	return cmd
}

func whatToDrop(cmd *cobra.Command, pool *pgxpool.Pool, name string) (dropOutput, error) {
	ctx := cmd.Context()
	scope, err := oneScope(ctx, pool, name)
	if err != nil {
		return dropOutput{}, err
	}
	generations, err := db.New(pool).Generations(ctx, &name)
	if err != nil {
		return dropOutput{}, err
	}
	inFlight, err := db.New(pool).InFlight(ctx, &name)
	if err != nil {
		return dropOutput{}, err
	}
	drop := dropOutput{Name: scope.Name, Generations: len(generations), RowsEstimate: scope.RowsEstimate, Bytes: scope.Bytes}
	for _, f := range inFlight {
		drop.Unfinished += f.Claims
	}
	return drop, nil
}

// readLine reads a line of standard input. It is empty if there is none, or if ctx ends first.
func (e *env) readLine(ctx context.Context) string {
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(e.stdin).ReadString('\n') // what was read before an error is the line
		line <- text
	}()
	select {
	case text := <-line:
		return text
	case <-ctx.Done():
		return ""
	}
}
