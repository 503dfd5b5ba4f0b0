package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pgonce/pgonce/archive"
)

type maintainOutput struct {
	Events []eventOutput `json:"events"`
}

type eventOutput struct {
	Scope      string  `json:"scope"`
	Step       string  `json:"step"`
	Generation *int    `json:"generation"`
	Result     string  `json:"result"`
	Detail     *string `json:"detail"`
}

func newMaintainCommand(e *env) *cobra.Command {
	var scope, every, wait string
	cmd := &cobra.Command{
		Use:   "maintain",
		Short: "Rotate, drain, retire and repair scopes, as far as each is due",
		Long: `Rotate, drain, retire and repair scopes, as far as each is due. Call it every minute, or leave it running with --every. It
may be interrupted anywhere, and several may run at once: claims never wait for it.

Each event is a step that was taken (done), or that is held back: waiting (for transactions to end, see pgonce status), busy
(a lock was not to be had, or another session is at work), kept (by the scope's policy), missing (tables are gone). What is
held back is done by a later call and is no failure.

With --every it goes on until it is interrupted, and writes errors to standard error and goes on as well.

JSON: events, an array of scope, step, generation, result, detail; with --every one such line a round.`,
		Example: `  pgonce maintain
  pgonce maintain --scope pay_callback --wait '30 seconds'
  pgonce maintain --every 1m --output json`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&scope, "scope", "", "maintain this scope only")
	cmd.Flags().StringVar(&every, "every", "", "go on, and maintain at this `interval`")
	cmd.Flags().StringVar(&wait, "wait", "", "how long to wait, in all, for what holds a step back (`interval`); default: 3 seconds")
	cmd.RunE = e.onDatabase(func(cmd *cobra.Command, pool *pgxpool.Pool, _ []string) error {
		ctx := cmd.Context()
		opts := archive.Options{Scope: scope}
		if cmd.Flags().Changed("wait") {
			var err error
			if opts.Wait, err = interval(ctx, pool, "wait", wait); err != nil {
				return err
			}
			if opts.Wait == 0 {
				opts.Wait = -1 // not at all
			}
		}
		if !cmd.Flags().Changed("every") {
			report, err := archive.Maintain(ctx, pool, opts)
			if err != nil {
				return err
			}
			return e.printReport(report)
		}
		pause, err := interval(ctx, pool, "every", every)
		if err != nil {
			return err
		}
		if pause == 0 {
			return usagef("--every must be longer than nothing")
		}
		return e.maintainEvery(ctx, pool, pause, opts)
	})
	return cmd
}

// maintainEvery maintains until ctx ends, or nobody can be told of it.
func (e *env) maintainEvery(ctx context.Context, pool *pgxpool.Pool, pause time.Duration, opts archive.Options) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var failed error
	archive.Every(ctx, pool, pause, opts, func(report archive.Report, err error) {
		if err != nil {
			printError(e.stderr, err)
		}
		if failed = e.printReport(report); failed != nil {
			stop(failed)
		}
	})
	return failed
}

func (e *env) printReport(report archive.Report) error {
	out := maintainOutput{Events: make([]eventOutput, len(report.Events))}
	for i, event := range report.Events {
		o := eventOutput{Scope: event.Scope, Step: event.Step, Result: string(event.Result)}
		if event.Generation != 0 {
			o.Generation = &event.Generation
		}
		if event.Detail != "" {
			o.Detail = &event.Detail
		}
		out.Events[i] = o
	}
	return e.print(out, func(w io.Writer) {
		for _, event := range report.Events {
			fmt.Fprintln(w, event)
		}
	})
}

// interval reads a time as PostgreSQL does.
func interval(ctx context.Context, pool *pgxpool.Pool, flag, text string) (time.Duration, error) {
	var seconds float64
	err := pool.QueryRow(ctx, "SELECT extract(epoch FROM $1::text::interval)::float8", text).Scan(&seconds)
	if err != nil {
		return 0, fmt.Errorf("--%s: %w", flag, err)
	}
	if seconds < 0 {
		return 0, usagef("--%s must not be negative", flag)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}
