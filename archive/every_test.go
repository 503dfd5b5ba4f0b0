package archive_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/archive"
	"github.com/pgonce/pgonce/oncetest"
)

func TestEverySurvivesErrors(t *testing.T) {
	t.Parallel()
	pool := oncetest.Postgres(t).Pool
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	// The scope does not exist in the first rounds, and is found once it does.
	failed, succeeded := 0, 0
	archive.Every(ctx, pool, time.Millisecond, archive.Options{Scope: "pay", Now: later(t, pool, 4*24*time.Hour)},
		func(report archive.Report, err error) {
			switch {
			case err == nil:
				succeeded++
				if len(report.With(archive.Done)) > 0 {
					cancel()
				}
			case failed == 3:
				createScope(t, pool, "pay", "keep")
				doneOnce(t, pool, "pay", "a")
				failed++
			default:
				require.Equal(t, pgonce.CodeUnknownScope, pgonce.Code(err))
				failed++
			}
		})
	require.Equal(t, 4, failed)
	require.Equal(t, 1, succeeded)
}

func TestEveryStopsInTheMiddle(t *testing.T) {
	t.Parallel()
	pool := oncetest.Postgres(t).Pool
	createScope(t, pool, "pay", "keep")
	doneOnce(t, pool, "pay", "a")
	writer := begin(t, pool)
	_, err := writer.Exec(t.Context(), "SELECT FROM once.claim('pay', 'b')")
	require.NoError(t, err)

	// The round waits for the writer, for as long as an hour.
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	archive.Every(ctx, pool, time.Hour, archive.Options{Wait: time.Hour, Now: later(t, pool, 4*24*time.Hour)},
		func(report archive.Report, err error) { t.Errorf("reported %v, %v", report, err) })
	require.Error(t, ctx.Err())
}

func TestEveryWithoutCallback(t *testing.T) {
	t.Parallel()
	pool := oncetest.Postgres(t).Pool
	createScope(t, pool, "pay", "keep")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		archive.Every(ctx, pool, 0, archive.Options{}, nil) // the default interval does not delay the end
		close(ended)
	}()
	require.Eventually(t, func() bool {
		var maintained bool
		err := pool.QueryRow(t.Context(), "SELECT maintained_at IS NOT NULL FROM once.scope").Scan(&maintained)
		return err == nil && maintained
	}, 30*time.Second, 5*time.Millisecond)
	cancel()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("it goes on")
	}
}
