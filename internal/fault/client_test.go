//go:build linux

package fault

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// A client is killed at each point of an operation. Its transaction counts from COMMIT on, and not before.
func TestClientKilled(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, c := range []struct {
		handler  handler
		point    string
		min, max int // rows that may be there
	}{
		{byRun, "claimed", 0, 0},
		{byRun, "written", 0, 0},
		{byRun, "before COMMIT", 0, 0},
		{byRun, "COMMIT sent", 0, 1},
		{byRun, "COMMIT answered", 1, 1},
		{byPlain, "claimed", 0, 0},
		{byPlain, "written", 0, 0},
		{byPlain, "completed", 0, 0},
		{byPlain, "before COMMIT", 0, 0},
		{byPlain, "COMMIT sent", 0, 1},
		{byPlain, "COMMIT answered", 1, 1},
	} {
		key := c.handler.name + " " + c.point
		s.rec.begin(key, c.handler)
		waitKilled(t, startChild(t, c.handler.name, s.URL("shop"), c.point))
		s.faults++
		// The server notices by itself that the client is gone, and what it was sent it carries out.
		awaitTrue(t, s.pool, "the session of a killed client stays",
			"SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = 'shop' AND application_name <> 'load')")
		require.Empty(t, s.wrong(false), key)
		found, err := read(context.Background(), s.pool, []string{key})
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(found[key].rows), c.min, key)
		require.LessOrEqual(t, len(found[key].rows), c.max, key)
	}
	s.retryAll()
	require.Empty(t, s.wrong(true))
	t.Logf("%d faults", s.faults)
}
