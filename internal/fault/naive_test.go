//go:build linux

package fault

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The checker finds what the same faults do to operations that are not done by pgonce, or against its rules.
func TestCheckerCatches(t *testing.T) {
	t.Parallel()
	long(t)
	for _, c := range []struct {
		naive handler
		what  string
	}{{byNothing, "doubled"}, {byMarkAfter, "doubled"}, {byMarkBefore, "lost"}} {
		t.Run(c.naive.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.handlers = []handler{c.naive}
			for range 20 {
				l := s.start()
				l.await(sliceAcks)
				s.kill()
				l.await(1)
				l.stop()
				s.retryAll()
				if wrong := s.wrong(true); len(wrong) > 0 {
					require.Contains(t, strings.Join(wrong, "\n"), c.what)
					t.Logf("found after %d kills: %s", s.faults, wrong[0])
					return
				}
			}
			t.Fatal("nothing was found")
		})
	}
}

// Each thing that the checker looks for, planted.
func TestCheckerCatchesPlanted(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for key, h := range map[string]handler{"run": byRun, "plain": byPlain, "consume": byConsume} {
		require.NoError(t, s.try(key, h))
	}
	require.Empty(t, s.wrong(true))
	for _, c := range []struct{ plant, undo, what string }{
		{"INSERT INTO ledger SELECT key, value FROM ledger WHERE key = 'consume'", "DELETE FROM ledger a USING ledger b WHERE a.key = b.key AND a.ctid > b.ctid", "doubled"},
		{"UPDATE ledger SET key = 'nobody' WHERE key = 'run'", "UPDATE ledger SET key = 'run' WHERE key = 'nobody'", "lost"},
		{"UPDATE ledger SET value = value - 1 WHERE key = 'plain'", "UPDATE ledger SET value = value + 1 WHERE key = 'plain'", "a result that is not stored"},
		{"UPDATE once_data.s SET key = 'nobody' WHERE key = 'consume'", "UPDATE once_data.s SET key = 'consume' WHERE key = 'nobody'", "one without the other"},
		{"UPDATE once_data.s SET state = 'in_progress' WHERE key = 'run'", "UPDATE once_data.s SET state = 'done' WHERE key = 'run'", "one without the other"},
	} {
		_, err := s.pool.Exec(context.Background(), c.plant)
		require.NoError(t, err)
		require.Contains(t, strings.Join(s.wrong(true), "\n"), c.what, c.plant)
		_, err = s.pool.Exec(context.Background(), c.undo)
		require.NoError(t, err)
		require.Empty(t, s.wrong(true), c.undo)
	}
	s.rec.end("run", 1, nil)
	require.Contains(t, strings.Join(s.wrong(true), "\n"), "different results")
}
