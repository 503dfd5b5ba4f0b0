package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/oncetest"
)

func TestMigrate(t *testing.T) {
	t.Parallel()
	db := oncetest.Postgres(t)
	c := client{t, db.URL}
	_, err := db.Pool.Exec(t.Context(), "DROP SCHEMA once, once_data CASCADE")
	require.NoError(t, err)

	state := c.json("migrate", "status")
	require.Zero(t, state["version"])
	require.Equal(t, false, state["dirty"])
	require.Contains(t, c.ok("migrate", "status"), "not installed")
	require.Contains(t, c.fails("claim", "pay", "a"), "HINT: Is the schema installed, and up to date? See: pgonce migrate status\n")

	require.Contains(t, c.ok("migrate", "up"), "the schema is at version")
	state = c.json("migrate", "up")
	require.Equal(t, state["latest"], state["version"])
	c.ok("scope", "create", "pay", "--window", "7 days", "--retry-horizon", "3 days")
}

func TestMigrateDirty(t *testing.T) {
	t.Parallel()
	db := oncetest.Postgres(t)
	c := client{t, db.URL}
	_, err := db.Pool.Exec(t.Context(), "UPDATE once.schema_migrations SET dirty = true")
	require.NoError(t, err)
	require.Equal(t, true, c.json("migrate", "status")["dirty"])
	require.Contains(t, c.ok("migrate", "status"), "pgonce migrate up")
	require.Contains(t, c.fails("migrate", "up"), "marked dirty")
}
