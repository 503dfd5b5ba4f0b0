package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/oncetest"
)

func TestStatus(t *testing.T) {
	t.Parallel()
	db := oncetest.Postgres(t)
	c := client{t, db.URL}
	require.Equal(t, map[string]any{"scopes": []any{}, "generations": []any{}, "in_flight": []any{}, "holders": []any{}}, c.json("status"))

	// A transaction that writes to generation 1 holds back its draining.
	c.due(db, "pay")
	tx, err := db.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), "SELECT FROM once.claim('pay', 'held')")
	require.NoError(t, err)
	c.ok("maintain", "--wait", "0")

	status := c.json("status")
	scope := status["scopes"].([]any)[0].(map[string]any)
	require.Equal(t, "pay", scope["name"])
	require.Equal(t, 2.0, scope["open_generation"])
	generations := status["generations"].([]any)
	require.Len(t, generations, 2)
	require.Equal(t, "sealed", generations[0].(map[string]any)["state"])
	require.Equal(t, "open", generations[1].(map[string]any)["state"])
	require.Equal(t, false, generations[0].(map[string]any)["droppable"])
	inFlight := status["in_flight"].([]any)
	require.Len(t, inFlight, 1)
	require.Equal(t, 1.0, inFlight[0].(map[string]any)["claims"], "that of the running transaction is not seen")
	var steps []any
	for _, h := range status["holders"].([]any) {
		holder := h.(map[string]any)
		steps = append(steps, holder["step"])
		require.Equal(t, float64(tx.Conn().PgConn().PID()), holder["pid"])
		require.Equal(t, "idle in transaction", holder["state"])
	}
	require.Subset(t, steps, []any{"drain", "settle"})

	table := c.ok("status")
	for _, want := range []string{"SCOPE", "pay 1", "sealed", "IN FLIGHT", "HELD BACK", "drain generation 1", "settle epoch 2", "idle in transaction"} {
		require.Contains(t, table, want)
	}
}

func TestOneLine(t *testing.T) {
	t.Parallel()
	require.Equal(t, "SELECT 1", oneLine("SELECT\n\t 1 "))
	long := oneLine("SELECT 'äöü' FROM a_very_long_table_name_indeed WHERE x = 1 AND y = 2 AND z = 3")
	require.Len(t, []rune(long), 60)
}

func TestBytesText(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 kB", 1536: "1.5 kB", 1 << 20: "1.0 MB", 1 << 40: "1.0 TB", 1 << 62: "4096.0 PB"} {
		require.Equal(t, want, bytesText(n))
	}
}
