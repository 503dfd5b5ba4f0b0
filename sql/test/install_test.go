package sqltest

import (
	"context"
	"net/url"
	osexec "os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/oncetest"
)

// Both ways to install, psql with install.sql and golang-migrate, give the same schema, to the last comment and grant.
func TestInstallScriptAndMigrationsGiveTheSameSchema(t *testing.T) {
	t.Parallel()
	migrated := oncetest.Postgres(t)
	installed := emptyDatabase(t, migrated.AdminURL)
	psql := osexec.CommandContext(t.Context(), program(t, "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-1",
		"-d", installed, "-f", "../schema/install.sql")
	out, err := psql.CombinedOutput()
	require.NoError(t, err, string(out))

	want, got := dumpSchema(t, migrated.AdminURL), dumpSchema(t, installed)
	require.Contains(t, want, "CREATE FUNCTION once.claim(")
	require.Equal(t, want, got)

	version := func(url string) (version int64) {
		conn := connect(t, url)
		return get[int64](t, conn, "SELECT version FROM once.schema_migrations WHERE NOT dirty")
	}
	require.Equal(t, version(migrated.AdminURL), version(installed))
}

// emptyDatabase creates a database beside the one of adminURL and returns its URL.
func emptyDatabase(t *testing.T, adminURL string) string {
	t.Helper()
	u, err := url.Parse(adminURL)
	require.NoError(t, err)
	name := strings.TrimPrefix(u.Path, "/") + "_empty"
	admin := connect(t, adminURL)
	quoted := pgx.Identifier{name}.Sanitize()
	exec(t, admin, "CREATE DATABASE "+quoted+" TEMPLATE template0")
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), adminURL)
		require.NoError(t, err)
		defer conn.Close(context.Background())
		_, err = conn.Exec(context.Background(), "DROP DATABASE "+quoted+" WITH (FORCE)")
		require.NoError(t, err)
	})
	u.Path = "/" + name
	return u.String()
}

// dumpSchema is the schema of a database as pg_dump writes it, without what differs by nature: owners, and the random key of
// \restrict that newer minor versions add.
func dumpSchema(t *testing.T, url string) string {
	t.Helper()
	dump, err := osexec.CommandContext(t.Context(), pgDump(t, url), "-s", "--no-owner", "-n", "once", "-n", "once_data", "-d", url).Output()
	require.NoError(t, err)
	var kept []string
	for line := range strings.SplitSeq(string(dump), "\n") {
		if !strings.HasPrefix(line, `\restrict`) && !strings.HasPrefix(line, `\unrestrict`) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}
