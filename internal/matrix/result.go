package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// outputTail is how many lines of a failed test are shown.
const outputTail = 60

// result is what one suite came to on one server.
type result struct {
	Version   string    `json:"version"` // in full
	PgBouncer bool      `json:"pgbouncer"`
	Suite     string    `json:"suite"`
	Pass      int       `json:"pass"` // tests without subtests, as are the next two
	Fail      int       `json:"fail"`
	Skip      int       `json:"skip"`
	Seconds   float64   `json:"seconds"`
	Failed    []failure `json:"failed,omitempty"`
	Skipped   []skipped `json:"skipped,omitempty"`
}

// failure is a test that failed, or the suite itself: it did not compile, ran out of time, or ran nothing.
type failure struct {
	Test   string `json:"test,omitempty"`
	Output string `json:"output"`
}

type skipped struct {
	Test   string `json:"test"`
	Reason string `json:"reason"`
}

// event is a line of go test -json.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of what does not compile
	Test        string
	Elapsed     float64 // seconds
	Output      string
	FailedBuild string
}

// suite collects the events of a package.
type suite struct {
	outcome map[string]string   // pass, fail or skip, by test; "" is the package
	output  map[string][]string // lines, by test
	seconds float64
	build   string // the package whose build failed
}

// parse reads what go test -json prints, and returns a result for each of the suites, in their order. A suite of which it
// reads nothing has failed.
func parse(r io.Reader, suites []string, module string) ([]result, error) {
	collected := map[string]*suite{}
	builds := map[string][]string{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("go test -json printed %q", lines.Text())
		}
		if e.Package == "" {
			if e.Action == "build-output" {
				builds[e.ImportPath] = append(builds[e.ImportPath], e.Output)
			}
			continue
		}
		s := collected[e.Package]
		if s == nil {
			s = &suite{outcome: map[string]string{}, output: map[string][]string{}}
			collected[e.Package] = s
		}
		switch e.Action {
		case "output":
			s.output[e.Test] = append(s.output[e.Test], e.Output)
		case "pass", "fail", "skip":
			s.outcome[e.Test] = e.Action
			if e.Test == "" {
				s.seconds, s.build = e.Elapsed, e.FailedBuild
			}
		case "run": // a test that never ends has failed
			s.outcome[e.Test] = "fail"
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	results := make([]result, len(suites))
	for i, name := range suites {
		s := collected[module+strings.TrimPrefix(name, ".")]
		if s == nil {
			s = &suite{}
		}
		if s.build != "" {
			s.output[""] = append(builds[s.build], s.output[""]...)
		}
		results[i] = s.result(name)
	}
	return results, nil
}

func (s *suite) result(name string) result {
	r := result{Suite: name, Seconds: s.seconds}
	parents := map[string]bool{}
	for test := range s.outcome {
		for i, c := range test {
			if c == '/' {
				parents[test[:i]] = true
			}
		}
	}
	failedBelow := func(test string) bool {
		for other, outcome := range s.outcome {
			if outcome == "fail" && strings.HasPrefix(other, test+"/") {
				return true
			}
		}
		return false
	}
	for _, test := range slices.Sorted(maps.Keys(s.outcome)) {
		outcome := s.outcome[test]
		switch {
		case test == "":
		case outcome == "fail" && !failedBelow(test): // a parent may also fail by itself
			r.Fail++
			r.Failed = append(r.Failed, failure{test, tail(s.output[test])})
		case parents[test] && outcome != "skip":
		case outcome == "pass":
			r.Pass++
		case outcome == "skip":
			r.Skip++
			r.Skipped = append(r.Skipped, skipped{test, reason(s.output[test])})
		}
	}
	if r.Fail == 0 && (s.outcome[""] != "pass" || r.Pass == 0) {
		output := tail(s.output[""])
		r.Fail++
		r.Failed = append(r.Failed, failure{"", cmp.Or(output, "it ran no test")})
	}
	return r
}

// tail is the end of what a test printed.
func tail(lines []string) string {
	return strings.Join(lines[max(0, len(lines)-outputTail):], "")
}

// reason is what a test said when it was skipped, without the place in the source.
func reason(lines []string) string {
	var said []string
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		if place, text, found := strings.Cut(line, ": "); found && strings.Contains(place, ".go:") {
			line = text
		}
		said = append(said, line)
	}
	return cmp.Or(strings.Join(said, " "), "no reason given")
}

// via is how the tests reached the server.
func (r result) via() string {
	if r.PgBouncer {
		return "PgBouncer"
	}
	return "directly"
}

func passedAndSkipped(results []result) (passed, skipped int) {
	for _, r := range results {
		passed, skipped = passed+r.Pass, skipped+r.Skip
	}
	return passed, skipped
}

func failures(results []result) (n int) {
	for _, r := range results {
		n += r.Fail
	}
	return n
}

// writeTable writes a line for each result, then what was skipped, by reason, and what failed.
func writeTable(w io.Writer, results []result) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PostgreSQL\tvia\tsuite\tpass\tfail\tskip\tseconds")
	for _, r := range results {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%d\t%.1f\n", r.Version, r.via(), r.Suite, r.Pass, r.Fail, r.Skip, r.Seconds)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, r := range results {
		byReason := map[string][]string{}
		for _, s := range r.Skipped {
			byReason[s.Reason] = append(byReason[s.Reason], s.Test)
		}
		for _, why := range slices.Sorted(maps.Keys(byReason)) {
			fmt.Fprintf(w, "\nskipped on %s %s, %s: %s\n", r.Version, r.via(), r.Suite, why)
			for _, test := range byReason[why] {
				fmt.Fprintf(w, "  %s\n", test)
			}
		}
	}
	for _, r := range results {
		for _, f := range r.Failed {
			fmt.Fprintf(w, "\nFAILED on %s %s, %s %s\n%s", r.Version, r.via(), r.Suite, f.Test, f.Output)
		}
	}
	passed, skipped := passedAndSkipped(results)
	_, err := fmt.Fprintf(w, "\n%d passed, %d failed, %d skipped\n", passed, failures(results), skipped)
	return err
}

func writeJSON(w io.Writer, results []result) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(results)
}
