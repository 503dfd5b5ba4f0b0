package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// jsonOf writes events as go test -json does, for the package example.org/m/PKG.
func jsonOf(t *testing.T, events ...event) string {
	t.Helper()
	var b strings.Builder
	for _, e := range events {
		line, err := json.Marshal(e)
		require.NoError(t, err)
		b.Write(append(line, '\n'))
	}
	return b.String()
}

func parseOne(t *testing.T, events ...event) result {
	t.Helper()
	for i := range events {
		if events[i].ImportPath == "" {
			events[i].Package = "example.org/m/a"
		}
	}
	results, err := parse(strings.NewReader(jsonOf(t, events...)), []string{"./a"}, "example.org/m")
	require.NoError(t, err)
	require.Len(t, results, 1)
	return results[0]
}

func TestParse(t *testing.T) {
	t.Parallel()

	t.Run("Counts", func(t *testing.T) {
		t.Parallel()
		r := parseOne(t,
			event{Action: "run", Test: "TestA"}, event{Action: "run", Test: "TestA/x"}, event{Action: "run", Test: "TestA/y"},
			event{Action: "output", Test: "TestA/y", Output: "    a_test.go:7: no such: program\n"},
			event{Action: "output", Test: "TestA/y", Output: "--- SKIP: TestA/y (0.00s)\n"},
			event{Action: "pass", Test: "TestA/x"}, event{Action: "skip", Test: "TestA/y"}, event{Action: "pass", Test: "TestA"},
			event{Action: "run", Test: "TestB"}, event{Action: "pass", Test: "TestB"},
			event{Action: "pass", Elapsed: 1.5},
		)
		require.Equal(t, result{Suite: "./a", Pass: 2, Skip: 1, Seconds: 1.5, Skipped: []skipped{{"TestA/y", "no such: program"}}}, r)
	})
	t.Run("Failures", func(t *testing.T) {
		t.Parallel()
		r := parseOne(t,
			event{Action: "run", Test: "TestA"}, event{Action: "run", Test: "TestA/x"},
			event{Action: "output", Test: "TestA/x", Output: "a.go:1: wrong\n"},
			event{Action: "fail", Test: "TestA/x"}, event{Action: "fail", Test: "TestA"},
			// Its subtest is fine, the test itself is not.
			event{Action: "run", Test: "TestB"}, event{Action: "run", Test: "TestB/x"},
			event{Action: "pass", Test: "TestB/x"}, event{Action: "fail", Test: "TestB"},
			event{Action: "fail"},
		)
		require.Equal(t, 2, r.Fail)
		require.Equal(t, 1, r.Pass)
		require.Equal(t, []failure{{"TestA/x", "a.go:1: wrong\n"}, {"TestB", ""}}, r.Failed)
	})
	t.Run("NeverEnded", func(t *testing.T) {
		t.Parallel()
		r := parseOne(t, event{Action: "run", Test: "TestA"}, event{Action: "output", Test: "TestA", Output: "panic: timed out\n"},
			event{Action: "fail"})
		require.Equal(t, []failure{{"TestA", "panic: timed out\n"}}, r.Failed)
	})
	t.Run("DoesNotCompile", func(t *testing.T) {
		t.Parallel()
		r := parseOne(t, event{Action: "build-output", ImportPath: "a [a.test]", Output: "undefined: x\n"},
			event{Action: "fail", FailedBuild: "a [a.test]"})
		require.Equal(t, 1, r.Fail)
		require.Equal(t, "undefined: x\n", r.Failed[0].Output)
	})
	t.Run("FailsAfterItsTests", func(t *testing.T) { // as goleak does
		t.Parallel()
		r := parseOne(t, event{Action: "run", Test: "TestA"}, event{Action: "pass", Test: "TestA"},
			event{Action: "output", Output: "goleak: found\n"}, event{Action: "fail"})
		require.Equal(t, []failure{{"", "goleak: found\n"}}, r.Failed)
	})
	t.Run("RanNothing", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, 1, parseOne(t, event{Action: "pass"}).Fail)
		require.Equal(t, 1, parseOne(t, event{Action: "run", Test: "TestA"}, event{Action: "skip", Test: "TestA"}, event{Action: "pass"}).Fail,
			"a suite that skips everything has not passed")
		require.Equal(t, 1, parseOne(t).Fail)
	})
	t.Run("NoJSON", func(t *testing.T) {
		t.Parallel()
		_, err := parse(strings.NewReader("go: no such tool\n"), []string{"./a"}, "example.org/m")
		require.ErrorContains(t, err, "no such tool")
	})
}

func TestTable(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	require.NoError(t, writeTable(&b, []result{
		{Version: "14.23", Suite: "./txn", Pass: 7, Seconds: 1.25, Skip: 2, Skipped: []skipped{{"TestA", "why"}, {"TestB", "why"}}},
		{Version: "18.4", PgBouncer: true, Suite: "./txn", Pass: 6, Fail: 1, Seconds: 2, Failed: []failure{{"TestC", "wrong\n"}}},
	}))
	require.Equal(t, `PostgreSQL  via        suite  pass  fail  skip  seconds
14.23       directly   ./txn  7     0     2     1.2
18.4        PgBouncer  ./txn  6     1     0     2.0

skipped on 14.23 directly, ./txn: why
  TestA
  TestB

FAILED on 18.4 PgBouncer, ./txn TestC
wrong

13 passed, 1 failed, 2 skipped
`, b.String())
}
