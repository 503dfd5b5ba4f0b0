package sqltest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/internal/pgbouncer"
)

func TestRotateByAge(t *testing.T) {
	t.Parallel()
	b := newBase(t)

	require.Empty(t, b.maintain(10*slice), "an empty generation does not age")

	finish(t, b.Pool, "done")
	claim(t, b.Pool, "unfinished", "")
	require.Empty(t, b.maintain(slice-time.Minute), "it is not old enough")
	require.Equal(t, int64(1), b.epoch())

	require.Equal(t, []string{"rotate 2: done", "switch 2: done", "drain 1: done"}, b.settleDown(slice)[:3])
	require.Equal(t, int64(2), b.epoch())
	require.Equal(t, "open", b.state(2))

	requireOutcome(t, b.Pool, "replay", "done")
	requireOutcome(t, b.Pool, "in_progress", "unfinished")
	requireOutcome(t, b.Pool, "fresh", "new")
}

func TestRotateByRows(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	b.exec("SELECT once.alter_scope('s', p_rotate_rows => 20)")

	// Statistics are sent when a session ends.
	write := func(from, to int) {
		conn := b.session()
		for i := from; i < to; i++ {
			finish(t, conn, fmt.Sprint("k", i))
		}
		require.NoError(t, conn.Close(context.Background()))
	}
	rows := func() int64 {
		return get[int64](t, b.Pool, "SELECT rows_estimate FROM once.generations WHERE generation = 1")
	}

	write(0, 19)
	require.Eventually(t, func() bool { return rows() == 19 }, patience, 10*time.Millisecond)
	require.Empty(t, b.maintain(0))

	write(19, 20)
	require.Eventually(t, func() bool { return rows() == 20 }, patience, 10*time.Millisecond)
	require.Contains(t, b.maintain(0), "rotate 2: done")
	requireOutcome(t, b.Pool, "replay", "k0")

	b.exec("SELECT once.alter_scope('s', p_rotate_rows => 0)")
	require.Nil(t, get[*int64](t, b.Pool, "SELECT rotate_rows FROM once.scopes"))
}

func TestKeysAreRecognisedForTheWindow(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	for i, key := range []string{"a", "b"} {
		c := claim(t, b.Pool, key, ", p_fingerprint => 'f'")
		require.Equal(t, "fresh", c.Outcome)
		if i == 0 {
			complete(t, b.Pool, key, c)
		}
	}
	for generation := 2; generation <= 4; generation++ {
		later := time.Duration(generation-1) * slice
		b.rotate(later)
		require.Equal(t, "open", b.state(generation))
		for range 2 {
			require.Equal(t, "replay", claim(t, b.Pool, "a", ", p_fingerprint => 'f'").Outcome)
			require.Equal(t, "done", string(claim(t, b.Pool, "a", "").Result))
			require.Equal(t, "in_progress", claim(t, b.Pool, "b", ", p_fingerprint => 'f'").Outcome)
			require.Equal(t, "mismatch", claim(t, b.Pool, "a", ", p_fingerprint => 'other'").Outcome)
			require.Equal(t, "mismatch", claim(t, b.Pool, "b", ", p_fingerprint => 'other'").Outcome)
		}
		finish(t, b.Pool, fmt.Sprint("fill", generation))
		if generation == 3 {
			return // a window is two generations; from here on the first may be retired
		}
	}
}

func TestSettleAfterRotation(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	c := map[string]claimed{}
	for _, key := range []string{"complete", "fail", "release", "stale"} {
		c[key] = claim(t, b.Pool, key, "")
	}
	b.rotate(slice)

	complete(t, b.Pool, "complete", c["complete"])
	b.exec("SELECT once.fail('s', 'fail', $1, 1, 'no')", c["fail"].ID)
	b.exec("SELECT once.release('s', 'release', $1, 1)", c["release"].ID)
	requireOutcome(t, b.Pool, "replay", "complete")
	requireOutcome(t, b.Pool, "failed", "fail")
	again := claim(t, b.Pool, "release", "")
	require.Equal(t, "fresh", again.Outcome)
	require.NotEqual(t, c["release"].ID, again.ID)

	for _, key := range []string{"complete", "fail", "release"} {
		_, err := b.Pool.Exec(t.Context(), "SELECT once.complete('s', $1, $2, 1)", key, c[key].ID)
		requireCode(t, "ON007", err)
	}
	_, err := b.Pool.Exec(t.Context(), "SELECT once.complete('s', 'stale', $1, 2)", c["stale"].ID)
	requireCode(t, "ON007", err)
	requireOutcome(t, b.Pool, "in_progress", "stale")
}

func TestCase10DrainWaitsForASession(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	finish(t, b.Pool, "first")

	writer := b.begin(pgx.ReadCommitted)
	c := claim(t, writer, "held", "")
	require.Equal(t, "fresh", c.Outcome)

	require.Contains(t, b.maintain(slice), "drain 1: waiting")
	require.Equal(t, "sealed", b.state(1))

	var holder int
	var since, now time.Time
	require.NoError(t, b.Pool.QueryRow(t.Context(),
		"SELECT pid, since, clock_timestamp() FROM once.holders WHERE scope = 's' AND step = 'drain' AND generation = 1").Scan(&holder, &since, &now))
	require.Equal(t, pid(t, writer), holder)
	require.True(t, since.Before(now))

	// Nobody else waits, and who comes later is not waited for.
	finish(t, b.Pool, "second")
	requireOutcome(t, b.Pool, "in_progress", "held")
	later := b.begin(pgx.ReadCommitted)
	require.Equal(t, "fresh", claim(t, later, "later", "").Outcome)
	require.Contains(t, b.maintain(slice), "drain 1: waiting")

	// The writer completes in the sealed generation, as an epoch ago.
	complete(t, writer, "held", c)
	commit(t, writer)
	require.Contains(t, b.maintain(slice), "drain 1: done")
	require.Zero(t, get[int](t, b.Pool, "SELECT count(*) FROM once.holders WHERE step = 'drain'"))
	requireOutcome(t, b.Pool, "replay", "held")
	require.Equal(t, "drained", b.state(1))
}

func TestDrainWaitsWithinItsBound(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	finish(t, b.Pool, "first")
	writer := b.begin(pgx.ReadCommitted)
	claim(t, writer, "held", "")

	began := time.Now()
	require.Contains(t, b.maintainWait(b.Pool, slice, "300 milliseconds"), "drain 1: waiting")
	require.GreaterOrEqual(t, time.Since(began), 300*time.Millisecond)

	// It goes on as soon as the writer has ended.
	done := make(chan []string)
	go func() { done <- b.maintainWait(b.Pool, slice, "20 seconds") }()
	rollback(t, writer)
	require.Contains(t, <-done, "drain 1: done")
	requireOutcome(t, b.Pool, "fresh", "held")
}

func TestCase10DrainWaitsForAPreparedTransaction(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	finish(t, b.Pool, "first")
	gid := fmt.Sprintf("pgonce_drain_%d", time.Now().UnixNano())

	conn := b.session()
	exec(t, conn, "BEGIN")
	c := claim(t, conn, "held", "")
	complete(t, conn, "held", c)
	exec(t, conn, "PREPARE TRANSACTION '"+gid+"'")
	prepared := true
	t.Cleanup(func() {
		if prepared {
			_, _ = conn.Exec(context.Background(), "ROLLBACK PREPARED '"+gid+"'")
		}
	})

	require.Contains(t, b.maintain(slice), "drain 1: waiting")
	var holder *int
	var since, now time.Time
	require.NoError(t, b.Pool.QueryRow(t.Context(),
		"SELECT pid, since, clock_timestamp() FROM once.holders WHERE step = 'drain' AND gid = $1", gid).Scan(&holder, &since, &now))
	require.Nil(t, holder)
	require.True(t, since.Before(now))

	requireOutcome(t, b.Pool, "in_progress", "held")
	finish(t, b.Pool, "second")

	exec(t, conn, "COMMIT PREPARED '"+gid+"'")
	prepared = false
	require.Contains(t, b.maintain(slice), "drain 1: done")
	requireOutcome(t, b.Pool, "replay", "held")
}

func TestMaintainRefusesATransactionBlock(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	tx := b.begin(pgx.ReadCommitted)
	_, err := tx.Exec(t.Context(), "CALL once.maintain()")
	requireCode(t, "2D000", err)

	_, err = b.Pool.Exec(t.Context(), "CALL once.maintain('nobody')")
	requireCode(t, "ON001", err)
}

func TestMaintainUnderAnyDefaultIsolation(t *testing.T) {
	t.Parallel()
	pgbouncer.NeedsSession(t, "its default_transaction_isolation")
	for _, level := range []string{"read committed", "repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			b := newBase(t)
			finish(t, b.Pool, "k")
			conn := b.session()
			exec(t, conn, "SELECT set_config('default_transaction_isolation', $1, false)", level)
			require.Equal(t, []string{"rotate 2: done", "switch 2: done", "drain 1: done"}, b.maintainWait(conn, slice, "20 seconds")[:3])
			require.Equal(t, level, get[string](t, conn, "SHOW transaction_isolation"))
			requireOutcome(t, b.Pool, "replay", "k")
		})
	}
}

func TestMaintainTwiceAtOnce(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	finish(t, b.Pool, "k")

	// One session is in the middle of a step.
	first := b.begin(pgx.ReadCommitted)
	require.Equal(t, []string{"rotate 2: done"}, step(t, first, slice))
	require.Equal(t, []string{"maintain: busy"}, b.maintain(slice))
	requireOutcome(t, b.Pool, "replay", "k")
	finish(t, b.Pool, "l")
	commit(t, first)

	// Many at once do the work once.
	done := make(chan []string)
	for range 4 {
		go func() { done <- b.maintainWait(b.Pool, slice, "20 seconds") }()
	}
	var all []string
	for range 4 {
		all = append(all, <-done...)
	}
	count := map[string]int{}
	for _, e := range all {
		count[e]++
	}
	require.Equal(t, 1, count["switch 2: done"], all)
	require.Equal(t, 1, count["drain 1: done"], all)
	require.Equal(t, int64(2), b.epoch())
	requireOutcome(t, b.Pool, "replay", "k")
	requireOutcome(t, b.Pool, "replay", "l")
}

func TestMaintainVisitsEveryScope(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	b.exec("SELECT once.create_scope('other', interval '2 hours', interval '1 hour')")
	finish(t, b.Pool, "k")
	b.exec("SELECT once.claim('other', 'k')")
	b.exec("CALL once.maintain(p_now => clock_timestamp() + interval '1 hour')")
	require.Equal(t, 2, get[int](t, b.Pool, "SELECT count(*) FROM once.scopes WHERE open_generation = 2 AND maintained_at IS NOT NULL"))
}
