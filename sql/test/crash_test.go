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

// Every step of maintenance may be lost after it was taken, but for what a sequence keeps. The claims do not notice, and the
// next round does it again.
func TestMaintainIsInterrupted(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"rolled back", "terminated"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			b := newBase(t)
			finish(t, b.Pool, "done")
			unfinished := claim(t, b.Pool, "unfinished", "")
			late := claim(t, b.Pool, "late", "")

			taken := map[string]int{}
			checks := 0
			check := func() {
				t.Helper()
				checks++
				key := fmt.Sprint("new ", checks)
				finish(t, b.Pool, key)
				requireOutcome(t, b.Pool, "replay", key)
				for _, key := range []string{"unfinished", "late"} {
					require.Contains(t, []string{"in_progress", "parked", "replay"}, claim(t, b.Pool, key, "").Outcome, key)
				}
			}
			round := func(later time.Duration) {
				t.Helper()
				deadline := time.Now().Add(30 * time.Second)
				for {
					require.True(t, time.Now().Before(deadline), "maintenance does not come to an end: %v", taken)
					tx := b.begin(pgx.ReadCommitted)
					report := step(t, tx, later)
					require.NotContains(t, fmt.Sprint(report), "busy")
					if len(report) == 0 {
						rollback(t, tx)
						return
					}
					if how == "terminated" {
						b.terminate(tx)
					} else {
						rollback(t, tx)
					}
					check()

					// Noting who is waited for is a step that reports nothing done.
					tx = b.begin(pgx.ReadCommitted)
					for _, e := range step(t, tx, later) {
						taken[e]++
					}
					commit(t, tx)
					check()
				}
			}
			round(slice)
			requireOutcome(t, b.Pool, "replay", "done")
			complete(t, b.Pool, "late", late)
			b.exec("UPDATE once_data.s_g1 SET finished_at = finished_at + interval '3 hours' WHERE key = 'late'")
			round(past)
			for _, e := range []string{"rotate 2: done", "switch 2: done", "drain 1: done", "carry over 1: done", "unlink 1: done",
				"detach 1: done", "drop 1: done", "forget epoch: done"} {
				require.Positive(t, taken[e], "%s in %v", e, taken)
			}
			require.Equal(t, 1, taken["drop 1: done"])
			require.Equal(t, "dropped", b.state(1))
			requireOutcome(t, b.Pool, "parked", "unfinished")
			requireOutcome(t, b.Pool, "replay", "late")
			requireOutcome(t, b.Pool, "fresh", "done")
			complete(t, b.Pool, "unfinished", unfinished)
			require.Zero(t, get[int](t, b.Pool, "SELECT count(*) FROM once.epoch WHERE switched_at IS NULL"))
			require.Equal(t, b.epoch(), get[int64](t, b.Pool, "SELECT max(epoch) FROM once.epoch"))
		})
	}
}

// terminate ends the session of a transaction as an administrator would, and returns when it is gone.
func (b *base) terminate(tx pgx.Tx) {
	b.t.Helper()
	gone := pid(b.t, tx)
	admin := b.admin()
	require.True(b.t, get[bool](b.t, admin, "SELECT pg_terminate_backend($1)", gone))
	require.Eventually(b.t, func() bool {
		return !get[bool](b.t, admin, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)", gone)
	}, patience, time.Millisecond)
	require.NoError(b.t, admin.Close(context.Background()))
}

// The fence is moved, and the session dies before that is recorded: the new epoch is at work already.
func TestTheSwitchIsInterrupted(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	finish(t, b.Pool, "before")
	first := b.begin(pgx.ReadCommitted)
	require.Equal(t, []string{"rotate 2: done"}, step(t, first, slice))
	commit(t, first)
	require.Equal(t, int64(1), b.epoch())
	require.Equal(t, "published", b.state(2))

	second := b.begin(pgx.ReadCommitted)
	require.Equal(t, []string{"switch 2: done"}, step(t, second, slice))
	require.Equal(t, int64(2), b.epoch(), "a sequence is not held back by its transaction")
	finish(t, b.Pool, "during")
	b.terminate(second)

	require.Equal(t, int64(2), b.epoch())
	require.Equal(t, "published", b.state(2))
	require.Equal(t, 2, get[int](t, b.Pool, "SELECT generation FROM once.lookup('s', 'during')"))
	for _, key := range []string{"before", "during"} {
		requireOutcome(t, b.Pool, "replay", key)
	}
	require.Equal(t, []string{"switch 2: done", "drain 1: done"}, b.settleDown(slice)[:2])
	require.Equal(t, int64(2), b.epoch())
	for _, key := range []string{"before", "during"} {
		requireOutcome(t, b.Pool, "replay", key)
	}
}

// Whoever runs maintenance may have operators of the same names in the search_path.
func TestMaintainDoesNotFollowTheSearchPath(t *testing.T) {
	t.Parallel()
	pgbouncer.NeedsSession(t, "its search_path")
	b := newBase(t)
	for _, sql := range []string{
		"CREATE SCHEMA trap",
		"CREATE FUNCTION trap.trap(double precision, integer) RETURNS double precision LANGUAGE plpgsql AS $$BEGIN RAISE 'trapped'; END$$",
		"CREATE OPERATOR trap.* (FUNCTION = trap.trap, LEFTARG = double precision, RIGHTARG = integer)",
		"CREATE FUNCTION trap.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS $$BEGIN RAISE 'trapped'; END$$",
	} {
		b.exec(sql)
	}
	finish(t, b.Pool, "k")
	writer := b.begin(pgx.ReadCommitted)
	claim(t, writer, "held", "")
	conn := b.session()
	exec(t, conn, "SET search_path = trap, pg_catalog")
	require.Contains(t, b.maintainWait(conn, slice, "50 milliseconds"), "drain 1: waiting")
}
