// Command model checks once.pml, the model of the claim protocol, exhaustively with Spin: the protocol as it is in worlds of
// several sizes, where no search may find anything, and with safeguards switched off, where each must. README.md says what is
// modelled. The exit code is 1 if a search did not end as expected, 2 if the searches could not be run.
package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

//go:embed once.pml
var source []byte

func main() {
	var (
		only   = flag.String("only", "", "run only the searches that have this in their `name`")
		quick  = flag.Bool("quick", false, "run only the searches that take seconds")
		list   = flag.Bool("list", false, "list the searches and run none")
		trail  = flag.Bool("trail", false, "print each counterexample, step by step")
		memory = flag.Int("memory", 4000, "memory limit of one search, in `MB`")
	)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	var selected []search
	for _, s := range searches {
		if strings.Contains(s.name, *only) && (s.quick || !*quick) {
			selected = append(selected, s)
		}
	}
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, "model:", err)
		os.Exit(2)
	}
	if len(selected) == 0 {
		fail(fmt.Errorf("no search has %q in its name: -list names them", *only))
	}
	if *list {
		for _, s := range selected {
			fmt.Println(s.name)
		}
		return
	}
	v, err := newVerifier(ctx, *memory)
	if err != nil {
		fail(err)
	}
	unexpected, err := v.table(ctx, os.Stdout, selected, *trail)
	if err := errors.Join(err, v.close()); err != nil {
		fail(err)
	}
	if unexpected > 0 {
		fmt.Fprintf(os.Stderr, "model: %d of %d searches did not end as expected\n", unexpected, len(selected))
		os.Exit(1)
	}
}

// verifier is the program that Spin makes of once.pml. One serves all searches.
type verifier struct {
	dir        string
	safeguards map[string]int // the bits of OFF
}

// found is what a search came to.
type found struct {
	complete  bool   // every state was visited, or a counterexample was found
	violation string // what the counterexample shows; empty: there is none
	states    int
	depth     int
	megabytes float64
	elapsed   time.Duration
}

// expected reports whether s may end so.
func (f found) expected(s search) bool {
	return f.complete && s.found == (f.violation != "")
}

func newVerifier(ctx context.Context, memory int) (*verifier, error) {
	for program, hint := range map[string]string{
		"spin": "Debian: apt-get install spin; macOS: brew install spin",
		"cc":   "a C compiler; Debian: apt-get install gcc",
	} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("%s is not installed (%s)", program, hint)
		}
	}
	dir, err := os.MkdirTemp("", "pgonce-model-")
	if err != nil {
		return nil, err
	}
	v := &verifier{dir: dir, safeguards: safeguards()}
	if err := v.build(ctx, memory); err != nil {
		return nil, errors.Join(err, v.close())
	}
	return v, nil
}

func (v *verifier) close() error { return os.RemoveAll(v.dir) }

// build translates and compiles the model. MEMLIM is in MB; COLLAPSE compresses states without loss.
func (v *verifier) build(ctx context.Context, memory int) error {
	if err := os.WriteFile(filepath.Join(v.dir, "once.pml"), source, 0o600); err != nil {
		return err
	}
	if out, err := v.run(ctx, nil, "spin", "-a", "once.pml"); err != nil || strings.Contains(out, "Error") {
		return fmt.Errorf("spin -a: %w\n%s", cmp.Or(err, errors.New("refused")), out)
	}
	if out, err := v.run(ctx, nil, "cc", "-O2", "-DSAFETY", "-DCOLLAPSE", "-DVECTORSZ=2048", fmt.Sprintf("-DMEMLIM=%d", memory), "-o", "pan", "pan.c"); err != nil {
		return fmt.Errorf("cc: %w\n%s", err, out)
	}
	return nil
}

func (v *verifier) run(ctx context.Context, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = v.dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// table runs searches and prints what they came to, a line each; it returns how many did not end as expected.
func (v *verifier) table(ctx context.Context, w io.Writer, selected []search, trail bool) (unexpected int, err error) {
	// Lines come as the searches end, so the widths are given.
	const line = "%-62s %-15s %-27s %10s %7s %7s %8s\n"
	fmt.Fprintf(w, line, "search", "expected", "result", "states", "depth", "MB", "seconds")
	for _, s := range selected {
		f, err := v.search(ctx, s)
		if err != nil {
			return unexpected, fmt.Errorf("%s: %w", s.name, err)
		}
		expected, result := "nothing", "nothing"
		if s.found {
			expected = "counterexample"
		}
		switch {
		case f.violation != "":
			result = f.violation
		case !f.complete:
			result = "UNFINISHED: raise -memory"
		}
		if !f.expected(s) {
			unexpected++
			result += "  <-- NOT EXPECTED"
		}
		fmt.Fprintf(w, line, s.name, expected, result, strconv.Itoa(f.states), strconv.Itoa(f.depth),
			fmt.Sprintf("%.0f", f.megabytes), fmt.Sprintf("%.1f", f.elapsed.Seconds()))
		if trail && f.violation != "" {
			if err := v.trail(ctx, w, s); err != nil {
				return unexpected, err
			}
		}
	}
	return unexpected, nil
}

// search visits all states of s's world, and stops at the first counterexample.
func (v *verifier) search(ctx context.Context, s search) (found, error) {
	start := time.Now()
	out, err := v.run(ctx, v.parameters(s), "./pan", "-m2000000")
	if err != nil {
		return found{}, fmt.Errorf("%w\n%s", err, out)
	}
	f, err := parse(out)
	f.elapsed = time.Since(start)
	return f, err
}

// trail prints the steps of the counterexample that was found last.
func (v *verifier) trail(ctx context.Context, w io.Writer, s search) error {
	out, err := v.run(ctx, v.parameters(s), "./pan", "-r")
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	_, err = io.WriteString(w, out)
	return err
}

// parameters are the environment that once.pml reads the world from.
func (v *verifier) parameters(s search) []string {
	var env []string
	set := func(name string, value int) { env = append(env, name+"="+strconv.Itoa(value)) }
	truth := map[bool]int{true: 1}
	set("GENS", s.generations)
	set("UNLINKS", s.retirements)
	set("MAINTAINERS", s.maintainers)
	set("DROPS", truth[s.drops])
	set("LOOKS", truth[s.lookup])
	set("RETRIES", s.retries)
	set("CLAIMANTS", len(s.claimants))
	for i, c := range s.claimants {
		set(fmt.Sprintf("HOW%d", i), c.how)
		set(fmt.Sprintf("THEN%d", i), c.then)
	}
	mask := 0
	for _, name := range s.off {
		bit, ok := v.safeguards[name]
		if !ok {
			panic("once.pml has no safeguard " + name)
		}
		mask |= 1 << bit
	}
	set("OFF", mask)
	return env
}

// safeguards are the names that can be off, and their bits, as once.pml defines them.
func safeguards() map[string]int {
	_, rest, _ := strings.Cut(string(source), "#define OFF(bit)")
	list, _, _ := strings.Cut(rest, "\n\n")
	names := make(map[string]int)
	for _, m := range regexp.MustCompile(`(?m)^#define (\w+) (\d+)$`).FindAllStringSubmatch(list, -1) {
		names[m[1]], _ = strconv.Atoi(m[2])
	}
	return names
}

var (
	violation = regexp.MustCompile(`pan:1: (.*) \(at depth`)
	states    = regexp.MustCompile(`(\d+) states, stored`)
	depth     = regexp.MustCompile(`depth reached (\d+)`)
	megabytes = regexp.MustCompile(`([0-9.]+)\s+total actual memory usage`)
)

// parse reads the verifier's report.
func parse(out string) (f found, err error) {
	number := func(re *regexp.Regexp) float64 {
		match := re.FindStringSubmatch(out)
		if match == nil {
			err = fmt.Errorf("cannot read the verifier's report:\n%s", out)
			return 0
		}
		n, _ := strconv.ParseFloat(match[1], 64)
		return n
	}
	f.states, f.depth, f.megabytes = int(number(states)), int(number(depth)), number(megabytes)
	if match := violation.FindStringSubmatch(out); match != nil {
		f.violation = meaning(match[1])
	}
	f.complete = f.violation != "" || !strings.Contains(out, "Search not completed") && !strings.Contains(out, "max search depth too small")
	return f, err
}

// meaning tells what a violated assertion of once.pml stands for.
func meaning(assertion string) string {
	for _, m := range [...]struct{ part, meaning string }{
		{"n>0", "what was committed is lost"},
		{"completed", "a completion is lost"},
		{"before", "a lookup misses a claim"},
		{"pendid", "a stale claim is settled"},
		{"dropped", "a dropped table is used"},
		{"!(winner)", "two winners"},
	} {
		if strings.Contains(assertion, m.part) {
			return m.meaning
		}
	}
	return assertion
}
