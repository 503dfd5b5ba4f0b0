package sqltest

import (
	"bytes"
	osexec "os/exec"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// dump is pg_dump's script of the database.
func (b *base) dump(args ...string) []byte {
	b.t.Helper()
	cmd := osexec.CommandContext(b.t.Context(), pgDump(b.t, b.AdminURL), append(args, b.direct)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(b.t, cmd.Run(), stderr.String())
	return stdout.Bytes()
}

// restore runs a script in a database of its own.
func restore(t *testing.T, script []byte) *base {
	t.Helper()
	b := empty(t)
	b.exec("DROP SCHEMA once, once_data CASCADE")
	cmd := osexec.CommandContext(t.Context(), program(t, "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", b.direct)
	cmd.Stdin = bytes.NewReader(script)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return b
}

func TestRestore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, b *base) (args []string)
		broken  bool
	}{
		{"in mid-window", func(*testing.T, *base) []string { return nil }, false},
		{"an epoch is published and not current", func(t *testing.T, b *base) []string {
			require.Equal(t, []string{"rotate 4: done"}, step(t, b.session(), 4*slice))
			return nil
		}, false},
		// Rows are those of the snapshot, a sequence is as it is when it comes to it.
		{"the dump's snapshot is older than a rotation", func(t *testing.T, b *base) []string {
			snapshot := b.snapshot(pgx.RepeatableRead)
			id := get[string](t, snapshot, "SELECT pg_export_snapshot()")
			b.rotate(4 * slice)
			finish(t, b.Pool, "after the snapshot")
			return []string{"--snapshot=" + id}
		}, true},
		{"a generation is unlinked", func(t *testing.T, b *base) []string {
			conn := b.session()
			for range 20 {
				report := step(t, conn, past)
				if len(report) > 0 && report[0] == "unlink 1: done" {
					return nil
				}
			}
			t.Fatal("it is not")
			return nil
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, unfinished := old(t)
			pgDump(t, b.AdminURL) // before there is more to do in vain
			args := c.prepare(t, b)
			r := restore(t, b.dump(args...))
			if c.broken {
				r.requireBroken()
				require.Contains(t, r.settleDown(0), "repair 4: done")
			}
			for range 2 {
				r.requireRecognised("second", "third")
				requireOutcome(t, r.Pool, map[bool]string{true: "parked", false: "in_progress"}[c.name == "a generation is unlinked"],
					"unfinished")
				r.settleDown(0)
			}
			complete(t, r.Pool, "unfinished", unfinished)
			finish(t, r.Pool, "new")
			r.requireRecognised("unfinished", "new")
			r.rotate(5 * slice)
			r.requireRecognised("new")

			// A copy takes the same locks for the same keys.
			require.Equal(t, get[int64](t, b.Pool, "SELECT last_value FROM once_data.s_seed"),
				get[int64](t, r.Pool, "SELECT last_value FROM once_data.s_seed"))
		})
	}
}
