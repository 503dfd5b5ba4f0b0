package archive_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/archive"
	"github.com/pgonce/pgonce/oncetest"
)

// later returns a time this much later than the database's clock.
func later(t *testing.T, db archive.DB, by time.Duration) (now time.Time) {
	t.Helper()
	require.NoError(t, db.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&now))
	return now.Add(by)
}

// doneOnce claims and completes a key.
func doneOnce(t *testing.T, db archive.DB, scope, key string) {
	t.Helper()
	var claimID string
	var attempt int32
	require.NoError(t, db.QueryRow(t.Context(), "SELECT claim_id::text, attempt FROM once.claim($1, $2)", scope, key).Scan(&claimID, &attempt))
	_, err := db.Exec(t.Context(), "SELECT once.complete($1, $2, $3::text::uuid, $4)", scope, key, claimID, attempt)
	require.NoError(t, err)
}

func createScope(t *testing.T, db archive.DB, name, archiving string) {
	t.Helper()
	_, err := db.Exec(t.Context(), "SELECT once.create_scope($1, '7 days', '3 days', p_archive => $2)", name, archiving)
	require.NoError(t, err)
}

// steps of the events, without their details.
func steps(events []archive.Event) []string {
	texts := make([]string, len(events))
	for i, e := range events {
		e.Detail = ""
		texts[i] = e.String()
	}
	return texts
}

func tableExists(t *testing.T, db archive.DB, name string) (exists bool) {
	t.Helper()
	require.NoError(t, db.QueryRow(t.Context(), "SELECT to_regclass($1) IS NOT NULL", name).Scan(&exists))
	return exists
}

func TestMaintain(t *testing.T) {
	t.Parallel()

	t.Run("NothingToDo", func(t *testing.T) {
		t.Parallel()
		pool := oncetest.Postgres(t).Pool
		createScope(t, pool, "pay", "keep")

		report, err := archive.Maintain(t.Context(), pool, archive.Options{})
		require.NoError(t, err)
		require.Empty(t, report.Events)
	})

	t.Run("RotateAndDrop", func(t *testing.T) {
		t.Parallel()
		pool := oncetest.Postgres(t).Pool
		createScope(t, pool, "pay", "discard")
		doneOnce(t, pool, "pay", "a")

		report, err := archive.Maintain(t.Context(), pool, archive.Options{Now: later(t, pool, 4*24*time.Hour)})
		require.NoError(t, err)
		require.Subset(t, steps(report.With(archive.Done)), []string{
			"pay: rotate of generation 2: done", "pay: switch of generation 2: done", "pay: drain of generation 1: done",
		})
		require.True(t, tableExists(t, pool, "once_data.pay_g1"))

		report, err = archive.Maintain(t.Context(), pool, archive.Options{Now: later(t, pool, 12*24*time.Hour)})
		require.NoError(t, err)
		require.Subset(t, steps(report.With(archive.Done)), []string{
			"pay: unlink of generation 1: done", "pay: detach of generation 1: done", "pay: drop of generation 1: done",
		})
		require.False(t, tableExists(t, pool, "once_data.pay_g1"))
	})

	t.Run("OneScope", func(t *testing.T) {
		t.Parallel()
		pool := oncetest.Postgres(t).Pool
		for _, name := range []string{"pay", "mail"} {
			createScope(t, pool, name, "keep")
			doneOnce(t, pool, name, "a")
		}

		report, err := archive.Maintain(t.Context(), pool, archive.Options{Scope: "mail", Now: later(t, pool, 4*24*time.Hour)})
		require.NoError(t, err)
		require.NotEmpty(t, report.Events)
		for _, e := range report.Events {
			require.Equal(t, "mail", e.Scope)
		}
		require.False(t, tableExists(t, pool, "once_data.pay_g2"))
	})

	t.Run("Kept", func(t *testing.T) {
		t.Parallel()
		pool := oncetest.Postgres(t).Pool
		createScope(t, pool, "pay", "keep")
		doneOnce(t, pool, "pay", "a")
		_, err := archive.Maintain(t.Context(), pool, archive.Options{Now: later(t, pool, 4*24*time.Hour)})
		require.NoError(t, err)

		report, err := archive.Maintain(t.Context(), pool, archive.Options{Now: later(t, pool, 12*24*time.Hour)})
		require.NoError(t, err)
		require.Equal(t, []archive.Event{
			{Scope: "pay", Step: "retire", Generation: 1, Result: archive.Kept, Detail: "archive is keep"},
		}, report.With(archive.Kept))
	})

	t.Run("WaitingForAWriter", func(t *testing.T) {
		t.Parallel()
		pool := oncetest.Postgres(t).Pool
		createScope(t, pool, "pay", "keep")
		writer := begin(t, pool)
		_, err := writer.Exec(t.Context(), "SELECT FROM once.claim('pay', 'a')")
		require.NoError(t, err)
		doneOnce(t, pool, "pay", "b")
		opts := archive.Options{Wait: -1, Now: later(t, pool, 4*24*time.Hour)}

		report, err := archive.Maintain(t.Context(), pool, opts)
		require.NoError(t, err)
		require.Contains(t, steps(report.Events), "pay: drain of generation 1: waiting")

		require.NoError(t, writer.Commit(t.Context()))
		report, err = archive.Maintain(t.Context(), pool, opts)
		require.NoError(t, err)
		require.Contains(t, steps(report.Events), "pay: drain of generation 1: done")
		require.Empty(t, report.With(archive.Waiting))
	})

	t.Run("BusyScope", func(t *testing.T) {
		t.Parallel()
		pool := oncetest.Postgres(t).Pool
		createScope(t, pool, "pay", "keep")
		_, err := begin(t, pool).Exec(t.Context(), "SELECT FROM once.scope FOR UPDATE")
		require.NoError(t, err)

		report, err := archive.Maintain(t.Context(), pool, archive.Options{Wait: -1})
		require.NoError(t, err)
		require.Equal(t, []string{"pay: maintain: busy"}, steps(report.Events))
	})

	t.Run("UnknownScope", func(t *testing.T) {
		t.Parallel()
		pool := oncetest.Postgres(t).Pool
		_, err := archive.Maintain(t.Context(), pool, archive.Options{Scope: "nope"})
		require.Equal(t, pgonce.CodeUnknownScope, pgonce.Code(err))
	})

	t.Run("InATransaction", func(t *testing.T) {
		t.Parallel()
		pool := oncetest.Postgres(t).Pool
		_, err := archive.Maintain(t.Context(), begin(t, pool), archive.Options{})
		require.Equal(t, "2D000", pgonce.Code(err)) // invalid_transaction_termination
	})

	t.Run("OneConnection", func(t *testing.T) {
		t.Parallel()
		conn, err := pgx.Connect(t.Context(), oncetest.Postgres(t).URL)
		require.NoError(t, err)
		defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
		createScope(t, conn, "pay", "keep")
		doneOnce(t, conn, "pay", "a")
		report, err := archive.Maintain(t.Context(), conn, archive.Options{Now: later(t, conn, 4*24*time.Hour)})
		require.NoError(t, err)
		require.NotEmpty(t, report.With(archive.Done))
	})
}

// begin returns a transaction that ends with the test at the latest.
func begin(t *testing.T, pool *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// readUnlinked brings generation 1 of the scope pay to where its table is to be detached, while the transaction that is
// returned reads the parent, so that a plain DETACH gives up.
func readUnlinked(t *testing.T, pool *pgxpool.Pool) (reader pgx.Tx, opts archive.Options) {
	t.Helper()
	createScope(t, pool, "pay", "discard")
	doneOnce(t, pool, "pay", "a")
	_, err := archive.Maintain(t.Context(), pool, archive.Options{Now: later(t, pool, 4*24*time.Hour)})
	require.NoError(t, err)

	// The reader must be younger than the switch to the epoch without the generation, and an older transaction makes
	// maintenance stop there.
	opts = archive.Options{Wait: -1, Now: later(t, pool, 12*24*time.Hour)}
	older := begin(t, pool)
	report, err := archive.Maintain(t.Context(), pool, opts)
	require.NoError(t, err)
	require.Contains(t, steps(report.Events), "pay: settle: waiting")
	reader = begin(t, pool)
	readParent(t, reader)
	require.NoError(t, older.Rollback(t.Context()))
	return reader, opts
}

func readParent(t *testing.T, db archive.DB) {
	t.Helper()
	_, err := db.Exec(t.Context(), "SELECT count(*) FROM once_data.pay")
	require.NoError(t, err)
}

func TestMaintainDetachesConcurrently(t *testing.T) {
	t.Parallel()
	pool := oncetest.Postgres(t).Pool
	reader, opts := readUnlinked(t, pool)

	type outcome struct {
		report archive.Report
		err    error
	}
	outcomes := make(chan outcome, 1)
	go func() {
		report, err := archive.Maintain(t.Context(), pool, opts)
		outcomes <- outcome{report, err}
	}()
	require.Eventually(t, func() bool {
		var pending bool
		err := pool.QueryRow(t.Context(), "SELECT coalesce(bool_or(inhdetachpending), false) FROM pg_inherits").Scan(&pending)
		return err == nil && pending
	}, 30*time.Second, 5*time.Millisecond)
	readParent(t, begin(t, pool)) // neither queues behind the detaching nor holds it up
	require.NoError(t, reader.Commit(t.Context()))

	got := <-outcomes
	require.NoError(t, got.err)
	require.Subset(t, steps(got.report.With(archive.Done)), []string{"pay: detach of generation 1: done", "pay: drop of generation 1: done"})
	require.Empty(t, got.report.With(archive.Busy))
	require.False(t, tableExists(t, pool, "once_data.pay_g1"))
}

// A detaching that was interrupted is finished by the next call.
func TestMaintainFinalizesDetach(t *testing.T) {
	t.Parallel()
	pool := oncetest.Postgres(t).Pool
	reader, opts := readUnlinked(t, pool)
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	_, err = conn.Exec(t.Context(), "SET lock_timeout = '10ms'")
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "ALTER TABLE once_data.pay DETACH PARTITION once_data.pay_g1 CONCURRENTLY")
	require.Equal(t, "55P03", pgonce.Code(err))
	require.NoError(t, reader.Commit(t.Context()))

	report, err := archive.Maintain(t.Context(), conn, opts)
	require.NoError(t, err)
	require.Subset(t, steps(report.With(archive.Done)), []string{"pay: detach of generation 1: done", "pay: drop of generation 1: done"})
}

// What a session had set is what it has afterwards.
func TestMaintainKeepsLockTimeout(t *testing.T) {
	t.Parallel()
	pool := oncetest.Postgres(t).Pool
	_, opts := readUnlinked(t, pool)
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	_, err = conn.Exec(t.Context(), "SET lock_timeout = '77ms'; SET statement_timeout = '1s'")
	require.NoError(t, err)

	// The reader stays: the detaching runs into the statement_timeout, and is left for later.
	report, err := archive.Maintain(t.Context(), conn, opts)
	require.NoError(t, err)
	require.Equal(t, []string{"pay: detach of generation 1: busy"}, steps(report.With(archive.Busy)))
	var timeout string
	require.NoError(t, conn.QueryRow(t.Context(), "SHOW lock_timeout").Scan(&timeout))
	require.Equal(t, "77ms", timeout)
}

// A role that may maintain, and owns nothing, leaves the detaching for later.
func TestMaintainByAnotherRole(t *testing.T) {
	t.Parallel()
	db := oncetest.Postgres(t)
	_, opts := readUnlinked(t, db.Pool)
	_, err := db.Pool.Exec(t.Context(), "GRANT USAGE ON SCHEMA once TO pg_monitor; GRANT EXECUTE ON ALL ROUTINES IN SCHEMA once TO pg_monitor")
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), db.AdminURL)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	_, err = conn.Exec(t.Context(), "SET ROLE pg_monitor")
	require.NoError(t, err)

	report, err := archive.Maintain(t.Context(), conn, opts)
	require.NoError(t, err)
	require.Equal(t, []string{"pay: detach of generation 1: busy"}, steps(report.With(archive.Busy)))
}
