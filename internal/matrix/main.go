// Command matrix runs the core suites on every supported major version of PostgreSQL, and on the oldest and the newest
// through PgBouncer in transaction mode as well.
//
// Server programs come from this machine where they are installed, or else from an npm package that is fetched once into
// the user's cache folder; remove the folder to fetch a newer minor version. The exit code is 1 if a test failed, 2 if the
// matrix could not be run.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pgonce/pgonce/internal/pgbouncer"
)

const (
	module = "github.com/pgonce/pgonce"

	// suiteTimeout bounds each suite of a run.
	suiteTimeout = 15 * time.Minute
)

var (
	// versions are the major ones that pgonce supports.
	versions = []int{14, 15, 16, 17, 18}

	// suites are the packages whose tests are run.
	suites = []string{"./sql/test", "./txn", "./archive", "./migrate"}

	// pooledSuites are those that reach their database through PgBouncer when asked to. The others need a session:
	// archive detaches with a lock_timeout of its own, migrate takes a session's advisory lock.
	pooledSuites = []string{"./sql/test", "./txn"}
)

// run is one go test.
type run struct {
	major     int
	pgBouncer bool
}

func (r run) suites() []string {
	if r.pgBouncer {
		return pooledSuites
	}
	return suites
}

func (r run) String() string {
	if r.pgBouncer {
		return fmt.Sprintf("%d through PgBouncer", r.major)
	}
	return strconv.Itoa(r.major)
}

// options are the flags.
type options struct {
	versions  []int
	pgBouncer bool // also through it
	direct    bool // also without it
	short     bool
	keepGoing bool
	list      bool
	json      bool
}

func parseFlags(args []string, stderr io.Writer) (options, error) {
	flags := flag.NewFlagSet("matrix", flag.ContinueOnError)
	flags.SetOutput(stderr)
	list := flags.String("versions", "", "major versions, separated by commas (default all: 14 to 18)")
	only := flags.Bool("pgbouncer", false, "only the runs through PgBouncer, on the oldest and the newest of the versions")
	without := flags.Bool("no-pgbouncer", false, "no run through PgBouncer")
	output := flags.String("output", "table", "table or json")
	o := options{versions: versions}
	flags.BoolVar(&o.short, "short", false, "pass -short to go test")
	flags.BoolVar(&o.keepGoing, "keep-going", false, "go on with the next run after a failure")
	flags.BoolVar(&o.list, "list", false, "show what would run, and where the programs come from; run nothing")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.pgBouncer, o.direct, o.json = !*without, !*only, *output == "json"
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case *only && *without:
		return o, errors.New("--pgbouncer and --no-pgbouncer contradict each other")
	case *output != "table" && *output != "json":
		return o, fmt.Errorf("--output is table or json, not %q", *output)
	}
	if *list != "" {
		o.versions = nil
		for text := range strings.SplitSeq(*list, ",") {
			major, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil || !slices.Contains(versions, major) {
				return o, fmt.Errorf("--versions: %q is none of %v", text, versions)
			}
			o.versions = append(o.versions, major)
		}
		slices.Sort(o.versions)
		o.versions = slices.Compact(o.versions)
	}
	return o, nil
}

// plan is what to run, in order.
func plan(o options) []run {
	var runs []run
	for i, major := range o.versions {
		if o.direct {
			runs = append(runs, run{major, false})
		}
		if o.pgBouncer && (i == 0 || i == len(o.versions)-1) {
			runs = append(runs, run{major, true})
		}
	}
	return runs
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	failed, err := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(2)
	case failed > 0:
		os.Exit(1)
	}
}

// execute returns how many tests failed.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) (failed int, err error) {
	o, err := parseFlags(args, stderr)
	if err != nil {
		return 0, err
	}
	s, err := newStore()
	if err != nil {
		return 0, err
	}
	runs := plan(o)
	if o.list {
		return 0, list(ctx, stdout, s, runs)
	}
	// Everything is there before anything runs.
	found := map[int]programs{}
	for _, r := range runs {
		if _, done := found[r.major]; done {
			continue
		}
		p, err := s.get(ctx, r.major)
		if err != nil {
			return 0, err
		}
		fmt.Fprintf(stderr, "PostgreSQL %s, %s: %s\n", p.version, p.source, p.dir)
		found[r.major] = p
	}
	if slices.ContainsFunc(runs, func(r run) bool { return r.pgBouncer }) {
		if _, err := pgbouncer.Find(); err != nil {
			return 0, fmt.Errorf("%w; install it (Debian: pgbouncer) or say --no-pgbouncer", err)
		}
	}

	var results []result
	for i, r := range runs {
		began := time.Now()
		these, err := test(ctx, r, found[r.major], o.short)
		if err != nil { // what there is, is shown all the same
			return failures(results), errors.Join(err, write(stdout, o, results))
		}
		results = append(results, these...)
		progress(stderr, fmt.Sprintf("%d/%d PostgreSQL %s", i+1, len(runs), r), these, time.Since(began))
		if failures(these) > 0 && !o.keepGoing {
			fmt.Fprintf(stderr, "stopped with %d runs left; --keep-going goes on\n", len(runs)-i-1)
			break
		}
	}
	return failures(results), write(stdout, o, results)
}

func write(w io.Writer, o options, results []result) error {
	if o.json {
		return writeJSON(w, results)
	}
	return writeTable(w, results)
}

// progress writes a line about a run, and one about each test that failed.
func progress(w io.Writer, name string, results []result, took time.Duration) {
	passed, skipped := passedAndSkipped(results)
	fmt.Fprintf(w, "%s: %d passed, %d failed, %d skipped in %.0f s\n", name, passed, failures(results), skipped, took.Seconds())
	for _, r := range results {
		for _, f := range r.Failed {
			fmt.Fprintf(w, "  failed: %s %s\n", r.Suite, f.Test)
		}
	}
}

// list shows what would run, without fetching anything.
func list(ctx context.Context, w io.Writer, s store, runs []run) error {
	for _, r := range runs {
		from := fmt.Sprintf("to be fetched: the newest %d of npm package %s", r.major, cmp.Or(s.pkg, "(none for this platform)"))
		if p, found := s.find(ctx, r.major); found {
			from = fmt.Sprintf("%s, %s: %s", p.version, p.source, p.dir)
		}
		if _, err := fmt.Fprintf(w, "PostgreSQL %s (%s)\n  %s\n", r, from, strings.Join(r.suites(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// test runs the suites against a server of these programs. Tests that fail are no error.
func test(ctx context.Context, r run, p programs, short bool) ([]result, error) {
	args := []string{"test", "-json", "-count=1", fmt.Sprintf("-timeout=%s", suiteTimeout)}
	if short {
		args = append(args, "-short")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, r.suites()...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // which go test passes on
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = environment(os.Environ(), r, p)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	results, err := parse(strings.NewReader(string(out)), r.suites(), module)
	for i := range results {
		results[i].Version, results[i].PgBouncer = p.version, r.pgBouncer
	}
	return results, err
}

// environment of a run: the server is started from these programs, whatever the caller's own environment would prefer.
func environment(env []string, r run, p programs) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		return strings.HasPrefix(v, "PGONCE_DATABASE_URL=") || strings.HasPrefix(v, pgbouncer.Variable+"=")
	})
	env = append(env, "PGONCE_TEST_SERVER=local", "PGONCE_PG_BINDIR="+p.dir)
	if r.pgBouncer {
		env = append(env, pgbouncer.Variable+"=1")
	}
	return env
}
