package sqltest

import (
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/internal/pgbin"
	"github.com/pgonce/pgonce/internal/testenv"
)

// program is the path of one of PostgreSQL's client programs. Without it the test is skipped, or fails in CI.
func program(t testing.TB, name string) string {
	t.Helper()
	if dir := os.Getenv("PGONCE_PG_BINDIR"); dir != "" {
		if path, err := osexec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	if path, err := osexec.LookPath(name); err == nil {
		return path
	}
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name); len(found) > 0 {
		return found[len(found)-1]
	}
	testenv.Missing(t, name+" is not installed")
	return ""
}

// pgDump is the path of pg_dump, which dumps no server that is newer than itself. Such a server was named by
// PGONCE_PG_BINDIR, whose folder has no client programs: then the test is skipped, even in CI.
func pgDump(t testing.TB, adminURL string) string {
	t.Helper()
	path := program(t, "pg_dump")
	version, err := pgbin.Version(t.Context(), path)
	require.NoError(t, err)
	server := get[int](t, connect(t, adminURL), "SELECT current_setting('server_version_num')::int / 10000")
	if client := pgbin.Major(version); client < server {
		why := fmt.Sprintf("pg_dump is version %d, older than the server, %d", client, server)
		if os.Getenv("PGONCE_PG_BINDIR") == "" {
			testenv.Missing(t, why)
		}
		t.Skip(why)
	}
	return path
}
