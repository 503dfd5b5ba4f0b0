// Command bench measures the hot path of pgonce side by side with its alternatives: the bare business transaction,
// a hand-written INSERT … ON CONFLICT in front of it, and the pattern of three transactions.
//
//	go run ./bench
//	go run ./bench --only bare,raw --rounds 3 --duration 500ms
//
// All contenders run in one process against one fresh database, interleaved in rounds and in changing order, so that
// a slow minute of the machine hits them all. Absolute figures say little about another machine; the ratios, computed
// round by round, say more. The client shares the processors with the server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// options are the flags of the command.
type options struct {
	url      string
	rounds   int
	duration time.Duration
	workers  []int
	only     []string
	output   string
	sync     bool

	// Operations on a single connection: between the checkpoint and the measurements, and of one measurement of log and
	// processor time.
	warmup, ops int
}

func parseFlags(args []string) (options, error) {
	var (
		opts          = options{warmup: 2000, ops: 1000}
		workers, only string
		flags         = flag.NewFlagSet("bench", flag.ContinueOnError)
	)
	flags.StringVar(&opts.url, "url", "", "`URL` of a PostgreSQL server; without it one is found or started")
	flags.IntVar(&opts.rounds, "rounds", 5, "number of rounds")
	flags.DurationVar(&opts.duration, "duration", 2*time.Second, "length of one measurement")
	flags.StringVar(&workers, "workers", "1,8", "numbers of concurrent workers")
	flags.StringVar(&only, "only", "", "names of the contenders to run, separated by commas")
	flags.StringVar(&opts.output, "output", "table", "table or json")
	flags.BoolVar(&opts.sync, "sync", false, "let commits wait for the disk")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}

	if flags.NArg() > 0 {
		return opts, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if opts.rounds < 1 || opts.duration <= 0 {
		return opts, errors.New("rounds and duration must be positive")
	}
	if opts.output != "table" && opts.output != "json" {
		return opts, fmt.Errorf("output: %q is neither table nor json", opts.output)
	}
	for field := range strings.SplitSeq(workers, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 {
			return opts, fmt.Errorf("workers: %q is not a positive number", field)
		}
		opts.workers = append(opts.workers, n)
	}
	if only != "" {
		opts.only = strings.Split(only, ",")
	}
	return opts, nil
}

// selectContenders returns the named contenders, all of them when none is named.
func selectContenders(names []string) ([]contender, error) {
	all := contenders()
	if len(names) == 0 {
		return all, nil
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(c contender) bool { return c.Name() == name }) {
			return nil, fmt.Errorf("only: no contender %q", name)
		}
	}
	return slices.DeleteFunc(all, func(c contender) bool { return !slices.Contains(names, c.Name()) }), nil
}

func run(ctx context.Context, args []string) error {
	opts, err := parseFlags(args)
	if err != nil {
		return err
	}
	selected, err := selectContenders(opts.only)
	if err != nil {
		return err
	}
	if opts.url == "" {
		url, stop, err := startServer(ctx)
		if err != nil {
			return err
		}
		defer stop() //nolint:errcheck // thrown away
		opts.url = url
	}

	found, err := measure(ctx, opts, selected)
	if err != nil {
		return err
	}
	if opts.output == "json" {
		return found.writeJSON(os.Stdout)
	}
	return found.writeTable(os.Stdout)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
