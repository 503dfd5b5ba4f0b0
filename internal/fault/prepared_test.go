//go:build linux

package fault

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/archive"
)

// A prepared transaction holds its claim over a kill of the server. The drain waits for it and says for which; nobody else
// gets the key, and what became of the transaction is what a retry is told.
func TestPreparedTransaction(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx := context.Background()
	values := map[string]int64{}
	for _, key := range []string{"committed", "rolled back"} {
		s.rec.begin(key, byPlain)
		require.NoError(t, pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			value, err := plain(ctx, tx, key)
			values[key] = value
			require.NoError(t, err)
			_, err = tx.Exec(ctx, "PREPARE TRANSACTION '"+key+"'")
			return err
		}), "a COMMIT after PREPARE does nothing")
	}
	require.NoError(t, s.try("other", byRun)) // an empty generation is not rotated

	for range 2 {
		s.kill()
		s.pool.Reset()
		report, err := archive.Maintain(ctx, s.pool, archive.Options{Wait: -1, Now: time.Now().Add(slice)})
		require.NoError(t, err)
		require.Contains(t, fmt.Sprint(report.With(archive.Waiting)), "drain of generation 1: waiting")
		for key := range values {
			var outcome string
			require.NoError(t, s.pool.QueryRow(ctx, "SELECT outcome::text FROM once.claim('s', $1, p_wait => '0')", key).Scan(&outcome))
			require.Equal(t, "in_progress", outcome)
		}
		var gids []string
		require.NoError(t, s.pool.QueryRow(ctx, "SELECT array_agg(DISTINCT gid::text ORDER BY gid::text) FROM once.holders WHERE step = 'drain'").Scan(&gids))
		require.Equal(t, []string{"committed", "rolled back"}, gids)
	}

	_, err := s.pool.Exec(ctx, "COMMIT PREPARED 'committed'")
	require.NoError(t, err)
	s.rec.end("committed", values["committed"], nil)
	_, err = s.pool.Exec(ctx, "ROLLBACK PREPARED 'rolled back'")
	require.NoError(t, err)
	require.Empty(t, s.wrong(false))
	s.retryAll()
	require.Empty(t, s.wrong(true))
	require.NotContains(t, s.rec.ops["rolled back"].values, values["rolled back"], strconv.FormatInt(values["rolled back"], 10))
	s.maintainToTheEnd()
	require.Empty(t, s.wrong(true))
}
