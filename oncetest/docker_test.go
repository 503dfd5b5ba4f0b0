package oncetest

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestDockerServer(t *testing.T) {
	t.Parallel()
	if os.Getenv("PGONCE_TEST_DOCKER") != "1" {
		t.Skip("PGONCE_TEST_DOCKER is not 1")
	}
	env := environment{"PGONCE_TEST_SERVER": "docker", "PGONCE_TEST_IMAGE": os.Getenv("PGONCE_TEST_IMAGE")}
	server, err := newFinder(env.get).find(t.Context(), Options{Settings: map[string]string{"max_connections": "44"}})
	require.NoError(t, err)
	defer func() { _ = server.Stop() }()
	require.Equal(t, SourceDocker, server.Source())
	require.Equal(t, "postgres", query[string](t, server.URL(), "SELECT current_database()"))
	require.Equal(t, "44", setting(t, server, "max_connections"))
	require.Equal(t, "off", setting(t, server, "synchronous_commit"))

	var db *DB
	t.Run("Postgres", func(t *testing.T) {
		db = newDB(t, server)
		require.False(t, query[bool](t, db.URL, "SELECT dirty FROM once.schema_migrations"))
	})

	require.NoError(t, server.Stop())
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	require.Error(t, withConn(ctx, server.URL(), func(*pgx.Conn) error { return nil }))
}

func TestDockerServerFailures(t *testing.T) {
	t.Parallel()
	t.Run("NoImage", func(t *testing.T) {
		t.Parallel()
		_, report := startChild(t, "once", "PGONCE_TEST_SERVER=docker", "PGONCE_TEST_IMAGE=pgonce.invalid/none:0",
			"DOCKER_HOST=tcp://127.0.0.1:1", "TESTCONTAINERS_RYUK_DISABLED=true")
		require.Contains(t, report().Error, "\n  docker: image pgonce.invalid/none:0: ")
	})
	t.Run("Keep", func(t *testing.T) {
		t.Parallel()
		_, err := dockerWay{}.start(t.Context(), Options{Keep: true})
		require.ErrorContains(t, err, "PGONCE_DATABASE_URL")
	})
}
