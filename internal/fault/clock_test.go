//go:build linux

package fault

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/archive"
)

// The server's clock is set back by two windows: what the catalogue recorded lies in the future. Nothing is refused and
// nothing forgotten; rotation and retirement come late, by as much.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	l := s.start()
	l.await(sliceAcks)
	l.stop()
	s.verify()

	ctx := context.Background()
	const back = 12 * slice
	_, err := s.pool.Exec(ctx, `
		WITH a AS (UPDATE once.generation SET opened_at = opened_at + $1, sealed_at = sealed_at + $1, drained_at = drained_at + $1)
		UPDATE once.epoch SET published_at = published_at + $1, switched_at = switched_at + $1, settled_at = settled_at + $1`, back)
	require.NoError(t, err)
	leaves := func() (first, last int) {
		require.NoError(t, s.pool.QueryRow(ctx, "SELECT min(generation) FILTER (WHERE dropped_at IS NULL), max(generation) FROM once.generation").
			Scan(&first, &last))
		return first, last
	}
	_, opened := leaves()
	failures := s.rec.failures()
	l = s.start()
	l.await(eraSlices * sliceAcks)
	l.stop()
	s.verify()
	require.Equal(t, failures, s.rec.failures(), "something was refused")
	first, last := leaves()
	require.Equal(t, 1, first, "a generation was forgotten early")
	require.Equal(t, opened, last, "a rotation came early")

	// A call from a machine whose clock is behind acts as the server's does.
	report, err := archive.Maintain(ctx, s.pool, archive.Options{Now: time.Now().Add(-back)})
	require.NoError(t, err)
	require.Empty(t, report.Events)

	maintain := func(after time.Duration) {
		_, err := archive.Maintain(ctx, s.pool, archive.Options{Wait: patience, Now: time.Now().Add(after)})
		require.NoError(t, err)
	}
	maintain(back + eraSlices*slice)
	first, last = leaves()
	require.Equal(t, 1, first)
	require.Equal(t, opened+1, last)
	require.Empty(t, s.wrong(true))
	// Generation 1 was drained two slices after its time, by the clock before.
	maintain(back + 7*slice)
	first, _ = leaves()
	require.Equal(t, 1, first, "a generation was forgotten early")
	maintain(back + 9*slice)
	first, _ = leaves()
	require.Greater(t, first, 1)
}
