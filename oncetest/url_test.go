package oncetest

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/internal/pgbin"
)

func findURL(ctx context.Context, url string) (*Server, error) {
	return newFinder(environment{"PGONCE_DATABASE_URL": url}.get).find(ctx, Options{})
}

func TestURLServer(t *testing.T) {
	t.Parallel()
	existing := localServer(t)
	server, err := findURL(t.Context(), existing.URL())
	require.NoError(t, err)
	require.Equal(t, SourceURL, server.Source())
	require.Equal(t, existing.URL(), server.URL())
	require.Zero(t, server.PID())
	require.Empty(t, server.DataDir())
	require.NoError(t, server.Stop())
	require.Equal(t, 1, query[int](t, existing.URL(), "SELECT 1"), "it must still run")
}

func TestURLServerFailures(t *testing.T) {
	t.Parallel()
	existing := localServer(t)
	role := "plain_" + randomName()
	execute(t, existing.URL(), "CREATE ROLE "+role+" LOGIN CREATEDB")
	plain, err := withDatabase(existing.URL(), "postgres", url.User(role))
	require.NoError(t, err)
	nowhere, err := pgbin.FreePort()
	require.NoError(t, err)

	for name, c := range map[string]struct{ url, want string }{
		"NobodyListens": {strings.Replace(existing.URL(), portOf(t, existing.URL()), itoa(nowhere), 1), "connection refused"},
		"NotAdmin":      {plain, "neither a superuser nor has CREATEDB and CREATEROLE"},
		"NotURL":        {"mysql://", "cannot parse"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := findURL(t.Context(), c.url)
			require.ErrorContains(t, err, "\n  url: PGONCE_DATABASE_URL: ")
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "\n  local: not tried after url\n", "a broken URL is no reason to use another server")
		})
	}
}

func TestWithDatabase(t *testing.T) {
	t.Parallel()
	user := url.UserPassword("o'wner", `p\w d`)
	for _, conn := range []string{
		"postgres://admin:secret@127.0.0.1:5433/postgres?sslmode=disable&application_name=x",
		"postgresql://127.0.0.1:5433?user=admin&password=secret&dbname=postgres&sslmode=disable&application_name=x",
		"host=127.0.0.1 port=5433 user=admin password=secret dbname=postgres sslmode=disable application_name=x",
	} {
		other, err := withDatabase(conn, "data base", nil)
		require.NoError(t, err)
		config, err := pgx.ParseConfig(other)
		require.NoError(t, err)
		require.Equal(t, "data base", config.Database, conn)
		require.Equal(t, "admin", config.User, conn)
		require.Equal(t, "secret", config.Password, conn)

		other, err = withDatabase(conn, "data base", user)
		require.NoError(t, err)
		config, err = pgx.ParseConfig(other)
		require.NoError(t, err)
		require.Equal(t, "data base", config.Database, conn)
		require.Equal(t, "o'wner", config.User, conn)
		require.Equal(t, `p\w d`, config.Password, conn)
		require.Equal(t, "127.0.0.1", config.Host, conn)
		require.EqualValues(t, 5433, config.Port, conn)
		require.Nil(t, config.TLSConfig, conn)
		require.Equal(t, "x", config.RuntimeParams["application_name"], conn)
	}
}
