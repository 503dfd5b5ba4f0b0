package main

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                              "14, 14 through PgBouncer, 15, 16, 17, 18, 18 through PgBouncer",
		"--no-pgbouncer":                "14, 15, 16, 17, 18",
		"--pgbouncer":                   "14 through PgBouncer, 18 through PgBouncer",
		"--versions 18,15,18":           "15, 15 through PgBouncer, 18, 18 through PgBouncer",
		"--versions 18":                 "18, 18 through PgBouncer",
		"--versions=18 --no-pgbouncer":  "18",
		"--versions 16 --pgbouncer":     "16 through PgBouncer",
		"--versions 14 --no-pgbouncer":  "14",
		"--keep-going --output json":    "14, 14 through PgBouncer, 15, 16, 17, 18, 18 through PgBouncer",
		"--short --versions 18 --list ": "18, 18 through PgBouncer",
	} {
		o, err := parseFlags(strings.Fields(args), io.Discard)
		require.NoError(t, err, args)
		var names []string
		for _, r := range plan(o) {
			names = append(names, r.String())
		}
		require.Equal(t, want, strings.Join(names, ", "), args)
	}
	for args, want := range map[string]string{
		"--versions 13":              "none of",
		"--versions 15,x":            "none of",
		"--pgbouncer --no-pgbouncer": "contradict",
		"--output xml":               "table or json",
		"./txn":                      "unexpected argument",
	} {
		_, err := parseFlags(strings.Fields(args), io.Discard)
		require.ErrorContains(t, err, want, args)
	}
}

// The environment of a caller who has a server of his own must not decide what is tested.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	env := environment([]string{"HOME=/h", "PGONCE_DATABASE_URL=postgres://elsewhere", "PGONCE_TEST_PGBOUNCER=1"},
		run{18, false}, programs{dir: "/bin18"})
	require.Equal(t, []string{"HOME=/h", "PGONCE_TEST_SERVER=local", "PGONCE_PG_BINDIR=/bin18"}, env)
	require.Contains(t, environment(nil, run{18, true}, programs{}), "PGONCE_TEST_PGBOUNCER=1")
}
