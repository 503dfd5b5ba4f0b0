package sqltest

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"testing"
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
	missing(t, name+" is not installed")
	return ""
}

// missing skips a test that lacks something, or fails it in CI.
func missing(t testing.TB, what string) {
	t.Helper()
	if ci, _ := strconv.ParseBool(os.Getenv("CI")); ci {
		t.Fatal(what)
	}
	t.Skip(what)
}
