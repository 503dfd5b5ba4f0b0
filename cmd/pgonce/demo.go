package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgonce/pgonce/internal/demo"
)

func newDemoCommand(e *env) *cobra.Command {
	var opts demo.Options
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Deliver payment callbacks more than once, with and without pgonce",
		Long: `Deliver a log of provider callbacks, with duplicates, killed receivers and connections lost during COMMIT, to a
receiver without defence and to one that uses pgonce, and count what each of them granted.

It runs on a throwaway PostgreSQL server, started from programs on this machine or else from a container, or on that of
PGONCE_DATABASE_URL, where it makes a database of its own. Everything is gone afterwards, unless --keep is given.

The exit status is 1 if pgonce lost or doubled anything.

JSON: ok, deliveries, unique, naive_grants, pgonce_grants, lost, doubled, providers, naive, pgonce, took_ns; with
--keep url and note; problems if not ok.`,
		Example: `  pgonce demo
  pgonce demo --keep
  pgonce demo --callbacks deliveries.ndjson --output json`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&opts.Callbacks, "callbacks", "", "deliver the log in this `file` (NDJSON) instead of the built-in one")
	cmd.Flags().BoolVar(&opts.Keep, "keep", false, "leave server and database running; the report says where")
	cmd.RunE = e.action(func(cmd *cobra.Command, _ []string) error {
		opts.Progress = e.stderr
		report, err := demo.Run(cmd.Context(), opts)
		if err != nil {
			return err
		}
		if err := e.printDemo(report); err != nil {
			return err
		}
		if !report.OK() {
			return errors.New(strings.Join(report.Problems(), "; "))
		}
		return nil
	})
	return cmd
}

// printDemo writes the report, as JSON on one line like that of other commands.
func (e *env) printDemo(report demo.Report) error {
	if e.output != outputJSON {
		return report.WriteTable(e.stdout)
	}
	var indented, line bytes.Buffer
	if err := report.WriteJSON(&indented); err != nil {
		return err
	}
	if err := json.Compact(&line, indented.Bytes()); err != nil {
		return err
	}
	line.WriteByte('\n')
	_, err := line.WriteTo(e.stdout)
	return err
}
