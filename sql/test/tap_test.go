package sqltest

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/internal/testenv"
	"github.com/pgonce/pgonce/oncetest"
)

var (
	planLine   = regexp.MustCompile(`^1\.\.(\d+)`)
	resultLine = regexp.MustCompile(`^(not )?ok (\d+)`)
)

// TestContracts runs the pgTAP files, each in a database of its own. Files whose names begin with an underscore are included by
// others.
func TestContracts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("[^_]*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(file, ".sql"), func(t *testing.T) {
			t.Parallel()
			psql := program(t, "psql")
			db := oncetest.Postgres(t)
			admin := connect(t, db.AdminURL)
			installTAP(t, admin)

			out, err := osexec.CommandContext(t.Context(), psql, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1",
				"-f", file, "-d", db.AdminURL).CombinedOutput()
			if failed := failures(string(out)); err != nil || len(failed) > 0 {
				t.Fatalf("%v\n%s\n\n%s", err, strings.Join(failed, "\n"), out)
			}
		})
	}
}

// installTAP leaves pgTAP in the schema tap. It is plain SQL, so that a server without the extension takes the script of another
// server's.
func installTAP(t *testing.T, admin *pgx.Conn) {
	t.Helper()
	install := "CREATE EXTENSION pgtap SCHEMA tap"
	if !get[bool](t, admin, "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'pgtap')") {
		script := tapScript(t)
		if script == "" {
			testenv.Missing(t, "the server has no extension pgtap, and no other on this machine has")
		}
		install = script
	}
	exec(t, admin, "CREATE SCHEMA tap; GRANT USAGE ON SCHEMA tap TO PUBLIC; SET search_path = tap, pg_catalog; "+
		"SET client_min_messages = warning; "+install)
}

// tapScript is the script of the newest pgTAP that a package has put on this machine, empty if there is none.
func tapScript(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob("/usr/share/postgresql/*/extension/pgtap--*.sql") // upgrades from one to another among them
	require.NoError(t, err)
	found = slices.DeleteFunc(found, func(path string) bool { return strings.Count(filepath.Base(path), "--") > 1 })
	if len(found) == 0 {
		return ""
	}
	text, err := os.ReadFile(slices.Max(found))
	require.NoError(t, err)
	return string(text)
}

// failures of a run in the Test Anything Protocol: the failing lines with their diagnosis, and what is wrong with the plan.
func failures(out string) []string {
	var failed []string
	planned, ran := -1, 0
	failing := false
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n")
		if m := planLine.FindStringSubmatch(line); m != nil {
			planned, _ = strconv.Atoi(m[1])
		} else if m := resultLine.FindStringSubmatch(line); m != nil {
			ran++
			failing = m[1] != ""
		} else if !strings.HasPrefix(line, "#") {
			failing = false
		}
		if failing {
			failed = append(failed, line)
		}
	}
	if planned < 0 {
		failed = append(failed, "no plan")
	} else if planned != ran {
		failed = append(failed, "planned "+strconv.Itoa(planned)+" tests, ran "+strconv.Itoa(ran))
	}
	return failed
}

func TestFailures(t *testing.T) {
	t.Parallel()
	require.Empty(t, failures("1..2\nok 1 - a\nok 2 - b\n"))
	require.Equal(t, []string{"not ok 1 - a", "# why"}, failures("not ok 1 - a\n# why\nok 2 - b\n1..2\n"))
	require.Equal(t, []string{"planned 2 tests, ran 1"}, failures("1..2\nok 1 - a\n"))
	require.Equal(t, []string{"no plan"}, failures("psql: error\n"))
}
