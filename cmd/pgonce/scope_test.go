package main

import (
	"context"
	"encoding/json"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/oncetest"
)

func (c client) createScope(name string, flags ...string) map[string]any {
	c.t.Helper()
	return c.json(append([]string{"scope", "create", name, "--window", "7 days", "--retry-horizon", "3 days"}, flags...)...)
}

func (c client) scopeNames() []string {
	c.t.Helper()
	var all []scopeOutput
	require.NoError(c.t, json.Unmarshal([]byte(c.ok("scope", "list", "--output", "json")), &all))
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.Name
	}
	return names
}

func TestScopeCreate(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	require.Equal(t, "[]\n", c.ok("scope", "list", "--output", "json"))

	// The defaults that the help text names.
	scope := c.createScope("pay")
	for member, want := range map[string]any{
		"name": "pay", "window": "7 days", "retry_horizon": "3 days", "generations": 2.0, "rotate_rows": nil, "lease": "00:01:00",
		"max_attempts": 5.0, "on_expiry": "takeover", "max_result_bytes": 1048576.0, "subject_required": false, "archive": "keep", "session_length": "",
		"epoch": 1.0, "open_generation": 1.0, "live_generations": 1.0, "maintained_at": nil,
	} {
		require.Equal(t, want, scope[member], member)
	}

	scope = c.json("scope", "create", "mail", "--window", "1 month", "--retry-horizon", "90m", "--generations", "3", "--rotate-rows", "1000",
		"--lease", "30s", "--max-attempts", "2", "--on-expiry", "park", "--max-result-bytes", "2048", "--subject-required", "--archive", "discard", "--session-length", "12h")
	for member, want := range map[string]any{
		"window": "1 mon", "retry_horizon": "01:30:00", "generations": 3.0, "rotate_rows": 1000.0, "lease": "00:00:30", "max_attempts": 2.0,
		"on_expiry": "park", "max_result_bytes": 2048.0, "subject_required": true, "archive": "discard", "session_length": "12:00:00",
	} {
		require.Equal(t, want, scope[member], member)
	}
	require.Equal(t, []string{"mail", "pay"}, c.scopeNames())
	table := c.ok("scope", "list")
	require.Contains(t, table, "RETRY HORIZON")
	require.Contains(t, table, "mail")

	require.Contains(t, c.fails("scope", "create", "pay", "--window", "7 days", "--retry-horizon", "3 days"), "ON006")
	require.Contains(t, c.fails("scope", "create", "other", "--window", "7 days"), "HINT: How long may any caller still retry?")
	// What is refused after the scope is made leaves no scope.
	require.Contains(t, c.fails("scope", "create", "other", "--window", "7 days", "--retry-horizon", "3 days", "--generations", "99"), "ON004")
	require.Equal(t, []string{"mail", "pay"}, c.scopeNames())
}

func TestScopeAlter(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.createScope("pay", "--rotate-rows", "10")
	scope := c.json("scope", "alter", "pay", "--window", "14 days", "--rotate-rows", "0")
	require.Equal(t, "14 days", scope["window"])
	require.Nil(t, scope["rotate_rows"])
	require.Equal(t, "3 days", scope["retry_horizon"], "what is not given stays")
	require.Equal(t, "scope pay changed: window 14 days, retry horizon 2 days\n", c.ok("scope", "alter", "pay", "--retry-horizon", "2 days"))
	require.Contains(t, c.fails("scope", "alter", "pay", "--window", "1 day"), "ON004")
	require.Contains(t, c.fails("scope", "alter", "nope", "--window", "1 day"), "ON001")
}

func TestScopeDrop(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.createScope("pay")
	c.ok("claim", "pay", "a")

	dry := c.json("scope", "drop", "pay", "--dry-run")
	require.Equal(t, false, dry["dropped"])
	require.Equal(t, 1.0, dry["generations"])
	require.Equal(t, 1.0, dry["unfinished"])
	require.Positive(t, dry["bytes"])
	require.Contains(t, c.ok("scope", "drop", "pay", "--dry-run"), "would drop scope pay: 1 generations")
	require.Equal(t, []string{"pay"}, c.scopeNames())

	for _, answer := range []string{"", "\n", "y\n", "yes\n", "payment\n"} {
		_, stderr, status := c.run(answer, "scope", "drop", "pay", "--discard-keys")
		require.Equal(t, exitFailure, status)
		require.Contains(t, stderr, "Type the name of the scope")
		require.Contains(t, stderr, "nothing was dropped")
	}
	// An interruption ends the question.
	ctx, cancel := context.WithCancel(t.Context())
	stdin, stdinEnd := io.Pipe()
	defer func() { _ = stdinEnd.Close() }()
	asked := countdown{lines: 1, done: cancel}
	status := run(ctx, &env{stdin: stdin, stdout: &asked, stderr: &asked, getenv: c.getenv}, []string{"scope", "drop", "pay", "--discard-keys"})
	require.Equal(t, exitFailure, status)
	require.Contains(t, asked.String(), "nothing was dropped")

	stderr := c.fails("scope", "drop", "pay", "--yes")
	require.Contains(t, stderr, "(SQLSTATE ON012)")
	require.Contains(t, stderr, "p_discard_keys => true")
	require.Equal(t, []string{"pay"}, c.scopeNames())

	stdout, stderr, status := c.run("pay\n", "scope", "drop", "pay", "--discard-keys")
	require.Equal(t, exitOK, status, stderr)
	require.Contains(t, stdout, "dropped scope pay")
	require.Empty(t, c.scopeNames())

	c.createScope("pay")
	require.Equal(t, true, c.json("scope", "drop", "pay", "--yes")["dropped"])
	require.Contains(t, c.fails("scope", "drop", "pay", "--dry-run"), "ON001")
}

func TestScopeGrant(t *testing.T) {
	t.Parallel()
	db := oncetest.Postgres(t)
	c := client{t, db.URL}
	c.createScope("pay")
	mayClaim := func() (may bool) {
		t.Helper()
		require.NoError(t, db.Pool.QueryRow(t.Context(),
			"SELECT has_sequence_privilege('pg_monitor', 'once_data.pay_fence', 'SELECT')").Scan(&may))
		return may
	}

	require.False(t, mayClaim())
	require.Equal(t, map[string]any{"scope": "pay", "role": "pg_monitor", "granted": true}, c.json("scope", "grant", "pay", "pg_monitor"))
	require.True(t, mayClaim())
	require.Equal(t, "pg_monitor may not claim in pay any more\n", c.ok("scope", "revoke", "pay", "pg_monitor"))
	require.False(t, mayClaim())
	require.Contains(t, c.fails("scope", "grant", "pay", "no_such_role"), "ON004")
}
