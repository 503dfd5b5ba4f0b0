package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/oncetest"
)

// due makes the next maintenance rotate a scope.
func (c client) due(db *oncetest.DB, scope string) {
	c.t.Helper()
	c.createScope(scope, "--rotate-rows", "1")
	c.ok("claim", scope, "a")
	_, err := db.Pool.Exec(c.t.Context(), `UPDATE once.generation AS g SET opened_at = opened_at - interval '4 days'
		FROM once.scope AS s WHERE s.scope_id = g.scope_id AND s.name = $1`, scope)
	require.NoError(c.t, err)
}

func TestMaintain(t *testing.T) {
	t.Parallel()
	db := oncetest.Postgres(t)
	c := client{t, db.URL}
	require.Empty(t, c.ok("maintain"))
	require.Equal(t, `{"events":[]}`+"\n", c.ok("maintain", "--output", "json"))

	c.due(db, "pay")
	c.due(db, "mail")
	require.Contains(t, c.ok("maintain", "--scope", "mail", "--wait", "1s"), "mail: rotate of generation 2: done, generation 1 was open since ")
	events := c.json("maintain", "--wait", "0")["events"].([]any)
	require.NotEmpty(t, events)
	for _, e := range events {
		require.Equal(t, "pay", e.(map[string]any)["scope"])
	}
	first := events[0].(map[string]any)
	require.Equal(t, "rotate", first["step"])
	require.Equal(t, 2.0, first["generation"])
	require.Equal(t, "done", first["result"])

	require.Contains(t, c.fails("maintain", "--scope", "nope"), "ON001")
	require.Contains(t, c.fails("maintain", "--wait", "soon"), "--wait: ")
	for _, args := range [][]string{{"--wait", "-1s"}, {"--every", "-1s"}, {"--every", "0"}} {
		_, stderr, status := c.run("", append([]string{"maintain"}, args...)...)
		require.Equal(t, exitUsage, status, stderr)
	}
}

func TestMaintainEvery(t *testing.T) {
	t.Parallel()
	db := oncetest.Postgres(t)
	c := client{t, db.URL}
	c.due(db, "pay")
	stdout, stderr, status := c.runUntil(2, 0, "maintain", "--every", "10 milliseconds", "--output", "json")
	require.Equal(t, exitOK, status, stderr)
	require.Empty(t, stderr)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	require.Len(t, lines, 2)
	var round maintainOutput
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &round))
	require.Equal(t, "rotate", round.Events[0].Step)
	require.Equal(t, `{"events":[]}`, lines[1])
}

func TestMaintainEverySurvivesErrors(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	_, stderr, status := c.runUntil(0, 4, "maintain", "--every", "10ms", "--scope", "nope")
	require.Equal(t, exitOK, status, stderr)
	require.Greater(t, strings.Count(stderr, "ON001"), 1) // of three lines each
	require.Contains(t, stderr, "HINT: ")
}
