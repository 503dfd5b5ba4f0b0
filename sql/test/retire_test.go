package sqltest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/internal/pgbouncer"
)

// past is when the first generation, sealed after a slice, is past its window.
const past = slice + window + time.Minute

func TestRetire(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	finish(t, b.Pool, "done")
	failed := claim(t, b.Pool, "failed", "")
	b.exec("SELECT once.fail('s', 'failed', $1, 1, 'no')", failed.ID)
	unfinished := claim(t, b.Pool, "unfinished", ", p_fingerprint => 'f'")
	late := claim(t, b.Pool, "late", ", p_fingerprint => 'f'")
	require.Equal(t, "fresh", late.Outcome)
	b.rotate(slice)
	b.settleDown(slice)
	// Finished long after its generation was sealed: its window starts there.
	exec(t, b.Pool, "SELECT once.complete('s', 'late', $1, 1, 'result', 'text/plain', '{\"a\": 1}')", late.ID)
	b.exec("UPDATE once_data.s_g1 SET finished_at = finished_at + interval '1 hour 30 minutes' WHERE key = 'late'")

	require.Empty(t, b.settleDown(slice+window-time.Minute), "inside the window nothing is retired")
	requireOutcome(t, b.Pool, "replay", "done")

	report := b.settleDown(past)
	require.Equal(t, []string{"carry over 1: done", "unlink 1: done", "detach 1: done", "drop 1: done"},
		about(report, 1))
	require.Equal(t, "dropped", b.state(1))
	require.Nil(t, get[*string](t, b.Pool, "SELECT to_regclass('once_data.s_g1')::text"))
	require.Equal(t, int64(2), get[int64](t, b.Pool, "SELECT carried FROM once.generations WHERE generation = 1"))
	require.Equal(t, 2, get[int](t, b.Pool, "SELECT live_generations FROM once.scopes"))

	requireOutcome(t, b.Pool, "fresh", "done")
	requireOutcome(t, b.Pool, "fresh", "failed")
	requireOutcome(t, b.Pool, "parked", "unfinished")
	requireOutcome(t, b.Pool, "replay", "late")
	require.Equal(t, "mismatch", claim(t, b.Pool, "late", ", p_fingerprint => 'other'").Outcome)
	require.Equal(t, "mismatch", claim(t, b.Pool, "unfinished", ", p_fingerprint => 'other'").Outcome)
	require.Equal(t, `result text/plain {"a": 1} `+late.ID, get[string](t, b.Pool,
		"SELECT concat_ws(' ', convert_from(result, 'UTF8'), content_type, meta, claim_id) FROM once.lookup('s', 'late')"))

	// Who comes back to a parked claim may still settle it.
	require.Equal(t, "parked", get[string](t, b.Pool, "SELECT state::text FROM once.in_flight WHERE key = 'unfinished'"))
	complete(t, b.Pool, "unfinished", unfinished)
	requireOutcome(t, b.Pool, "replay", "unfinished")
}

// about is what a report says of a generation.
func about(report []string, generation int) []string {
	var out []string
	for _, e := range report {
		if strings.Contains(e, fmt.Sprintf(" %d: ", generation)) {
			out = append(out, e)
		}
	}
	return out
}

func without(report []string, drop string) []string {
	return slices.DeleteFunc(report, func(e string) bool { return e == drop })
}

func TestRetireManyRows(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	const rows = 450 // more than two batches
	b.exec("SELECT once.claim('s', 'k' || i) FROM generate_series(1, $1::int) AS i", rows)
	b.rotate(slice)
	report := b.settleDown(past)
	require.Equal(t, []string{"carry over 1: done", "carry over 1: done", "carry over 1: done", "unlink 1: done"}, about(report, 1)[:4])
	require.Equal(t, "dropped", b.state(1))
	require.Equal(t, rows, get[int](t, b.Pool, "SELECT count(*) FROM once.in_flight WHERE state = 'parked'"))
}

func TestCarryOverLeavesALeasedClaimInProgress(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	claim(t, b.Pool, "leased", "")
	claim(t, b.Pool, "expired", "")
	b.exec("UPDATE once_data.s_g1 SET lease_until = clock_timestamp() + CASE key WHEN 'leased' THEN interval '1 day' ELSE interval '-1 second' END")
	b.rotate(slice)
	b.settleDown(past)
	require.Equal(t, "dropped", b.state(1))
	requireOutcome(t, b.Pool, "in_progress", "leased")
	requireOutcome(t, b.Pool, "parked", "expired")
}

func TestCarryOverPassesALockedKey(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	held := claim(t, b.Pool, "held", "")
	claim(t, b.Pool, "other", "")
	b.rotate(slice)
	b.settleDown(slice)

	worker := b.begin(pgx.ReadCommitted)
	complete(t, worker, "held", held)
	require.Equal(t, []string{"carry over 1: done", "carry over 1: busy"}, about(b.maintain(past), 1))
	requireOutcome(t, b.Pool, "parked", "other")
	requireOutcome(t, b.Pool, "in_progress", "held")
	finish(t, b.Pool, "new")

	// Finished now, which is before the window that ends at the time of the maintenance: nothing has to live on.
	commit(t, worker)
	require.Contains(t, b.settleDown(past), "drop 1: done")
	requireOutcome(t, b.Pool, "fresh", "held")
}

// However many keys are locked, those behind them are carried over.
func TestCarryOverPassesManyLockedKeys(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	const locked, others = 210, 5 // more than a batch
	b.exec("SELECT once.claim('s', 'k' || i) FROM generate_series(1, $1::int) AS i", locked+others)
	b.rotate(slice)
	b.settleDown(slice)

	holder := b.begin(pgx.ReadCommitted)
	exec(t, holder, "SELECT once.claim('s', 'k' || i) FROM generate_series(1, $1::int) AS i", locked)
	require.Equal(t, []string{"carry over 1: done", "carry over 1: busy"}, about(b.maintain(past), 1))
	require.Equal(t, others, get[int](t, b.Pool, "SELECT count(*) FROM once.in_flight WHERE state = 'parked'"))
	rollback(t, holder)
	require.Contains(t, b.settleDown(past), "drop 1: done")
	require.Equal(t, locked+others, get[int](t, b.Pool, "SELECT count(*) FROM once.in_flight WHERE state = 'parked'"))
}

func TestACompletionThatMeetsTheCarryOver(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			b := newBase(t)
			c := claim(t, b.Pool, "k", "")
			b.rotate(slice)
			b.settleDown(slice)

			mover := b.begin(pgx.ReadCommitted)
			worker := b.snapshot(level)
			require.Equal(t, []string{"carry over 1: done"}, step(t, mover, past))
			failure := make(chan error)
			workerPID := pid(t, worker)
			go func() {
				_, err := worker.Exec(t.Context(), "SELECT once.complete('s', 'k', $1, 1, 'done')", c.ID)
				failure <- err
			}()
			b.awaitBlocked(workerPID)
			commit(t, mover)
			err := <-failure
			if level == pgx.ReadCommitted {
				require.NoError(t, err)
				commit(t, worker)
				requireOutcome(t, b.Pool, "replay", "k")
				return
			}
			requireCode(t, "40001", err)
			rollback(t, worker)
			complete(t, b.Pool, "k", c)
			requireOutcome(t, b.Pool, "replay", "k")
		})
	}
}

func TestAClaimThatMeetsTheCarryOver(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	claim(t, b.Pool, "k", "")
	b.rotate(slice)
	b.settleDown(slice)
	mover := b.begin(pgx.ReadCommitted)
	require.Equal(t, []string{"carry over 1: done"}, step(t, mover, past))

	conn := b.begin(pgx.ReadCommitted)
	connPID := pid(t, conn)
	answer := make(chan string)
	go func() {
		c, err := tryClaim(t.Context(), conn, "k", "")
		answer <- fmt.Sprint(c.Outcome, err)
	}()
	b.awaitBlocked(connPID)
	commit(t, mover)
	require.Equal(t, "parked<nil>", <-answer)
}

// A look-up reads the leaves in one statement: a row that moves is in one of them.
func TestALookUpNeverMissesARowThatMoves(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	claim(t, b.Pool, "k", "")
	b.rotate(slice)
	b.settleDown(slice)
	lookup := func(q querier) string {
		return get[string](t, q, "SELECT concat_ws(' ', generation, state) FROM once.lookup('s', 'k')")
	}
	mover := b.begin(pgx.ReadCommitted)
	require.Equal(t, []string{"carry over 1: done"}, step(t, mover, past))
	require.Equal(t, "1 in_progress", lookup(b.Pool))
	require.Equal(t, "2 parked", lookup(mover))
	commit(t, mover)
	require.Equal(t, "2 parked", lookup(b.Pool))
	b.settleDown(past)
	require.Equal(t, "2 parked", lookup(b.Pool))
}

func TestKeep(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	b.exec("SELECT once.alter_scope('s', p_archive => 'keep')")
	finish(t, b.Pool, "k")
	b.rotate(slice)
	b.settleDown(slice)
	require.Contains(t, b.maintain(10*past), "retire 1: kept")
	require.Equal(t, "drained", b.state(1))
	requireOutcome(t, b.Pool, "replay", "k")
	require.Equal(t, 1, get[int](t, b.Pool, "SELECT count(*) FROM once_data.s WHERE generation = 1"))

	b.exec("SELECT once.alter_scope('s', p_archive => 'discard')")
	require.Contains(t, b.settleDown(10*past), "drop 1: done")
}

func TestDropWaitsForOlderTransactions(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	finish(t, b.Pool, "k")
	b.rotate(slice)
	b.settleDown(slice)

	idle := b.snapshot(pgx.RepeatableRead)
	report := b.maintain(past)
	require.Equal(t, []string{"unlink 1: done", "switch 2: done", "settle: waiting"}, report)
	require.Equal(t, "unlinked", b.state(1))
	require.Equal(t, pid(t, idle), get[int](t, b.Pool, "SELECT pid FROM once.holders WHERE step = 'settle'"))
	// What it may be on the way to is still there.
	require.NotNil(t, get[*string](t, idle, "SELECT to_regproc('once_data.s_claim_e2')::text"))
	require.NotNil(t, get[*string](t, idle, "SELECT to_regclass('once_data.s_g1')::text"))
	rollback(t, idle)
	requireOutcome(t, b.Pool, "fresh", "k")
	require.Equal(t, []string{"detach 1: done", "drop 1: done"}, about(b.settleDown(past), 1))
}

// unlinked is a base whose first generation, of one finished row, only has to be detached and dropped: nobody is older than
// the epoch without it.
func unlinked(t *testing.T) *base {
	b := newBase(t)
	finish(t, b.Pool, "k")
	b.rotate(slice)
	b.settleDown(slice)
	conn := b.session()
	for _, want := range []string{"unlink 1: done", "switch 2: done"} {
		require.Equal(t, []string{want}, step(t, conn, past))
	}
	require.Eventually(t, func() bool {
		exec(t, conn, "SELECT once._step_settle_epoch(s) FROM once.scope AS s")
		return get[bool](t, conn, "SELECT bool_and(settled_at IS NOT NULL) FROM once.epoch")
	}, patience, 5*time.Millisecond)
	return b
}

func TestDetachIsBusyWhileTheParentIsRead(t *testing.T) {
	t.Parallel()
	b := unlinked(t)
	claims := b.session()
	requireOutcome(t, claims, "fresh", "warm")

	reader := b.begin(pgx.ReadCommitted)
	exec(t, reader, "SELECT count(*) FROM once_data.s")
	require.Equal(t, []string{"detach 1: busy"}, about(b.maintain(past), 1)) // and does not wait for the reader, who waits for it
	require.Equal(t, "unlinked", b.state(1))
	finish(t, claims, "new")
	finish(t, b.session(), "new from a new session")

	rollback(t, reader)
	require.Contains(t, b.settleDown(past), "drop 1: done")
}

// A drop that has to wait for a reader gives up soon, and neither keeps the next generation from being made nor takes it back.
func TestCase35ABusyDropTakesNoRotationBack(t *testing.T) {
	t.Parallel()
	b := unlinked(t)
	conn := b.session()
	require.Equal(t, []string{"detach 1: done"}, step(t, conn, past))
	require.Equal(t, "detached", b.state(1))

	reader := b.begin(pgx.ReadCommitted)
	exec(t, reader, "SELECT count(*) FROM once_data.s_g1")
	require.Contains(t, b.maintain(past), "drop 1: busy")
	finish(t, b.Pool, "new")
	report := b.maintain(past + slice)
	require.Contains(t, report, "drop 1: busy")
	require.Contains(t, report, "rotate 3: done")
	require.Equal(t, "open", b.state(3))
	finish(t, b.Pool, "newer")
	require.Equal(t, 3, get[int](t, b.Pool, "SELECT generation FROM once.lookup('s', 'newer')"))
	rollback(t, reader)
	require.Contains(t, b.maintain(past), "drop 1: done")
	requireOutcome(t, b.Pool, "replay", "new")
}

// A lock on the parent keeps a rotation waiting, but neither claims nor the maintenance of other scopes.
func TestCase35RotationIsBusyWhileTheParentIsLocked(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	b.exec("SELECT once.create_scope('other', interval '2 hours', interval '1 hour')")
	b.exec("SELECT once.claim('other', 'k')")
	claims := b.session()
	finish(t, claims, "k")

	locker := b.begin(pgx.ReadCommitted)
	exec(t, locker, "LOCK TABLE once_data.s IN SHARE UPDATE EXCLUSIVE MODE")
	b.exec("CALL once.maintain(p_now => clock_timestamp() + interval '1 hour', p_wait => '0')")
	require.Equal(t, []string{"rotate: busy"}, without(b.maintain(slice), "settle: waiting"))
	require.Equal(t, 2, get[int](t, b.Pool, "SELECT open_generation FROM once.scopes WHERE name = 'other'"))
	finish(t, claims, "l")

	rollback(t, locker)
	require.Contains(t, b.maintain(slice), "rotate 2: done")
	requireOutcome(t, claims, "replay", "k")
}

func TestAnInterruptedDetachIsFinished(t *testing.T) {
	t.Parallel()
	pgbouncer.NeedsSession(t, "a statement_timeout outside a transaction")
	b := unlinked(t)
	conn := b.session()
	reader := b.begin(pgx.ReadCommitted)
	exec(t, reader, "SELECT count(*) FROM once_data.s")
	exec(t, conn, "SET statement_timeout = '200ms'")
	_, err := conn.Exec(t.Context(), "ALTER TABLE once_data.s DETACH PARTITION once_data.s_g1 CONCURRENTLY")
	requireCode(t, "57014", err)
	require.True(t, get[bool](t, b.Pool, "SELECT inhdetachpending FROM pg_inherits WHERE inhrelid = 'once_data.s_g1'::regclass"))
	finish(t, b.Pool, "meanwhile")
	rollback(t, reader)

	require.Equal(t, []string{"detach 1: done", "drop 1: done"}, about(b.settleDown(past), 1))
	require.Equal(t, "dropped", b.state(1))
	requireOutcome(t, b.Pool, "replay", "meanwhile")
}

// Rows that somebody changed by hand behind the retirement are looked at again before the drop.
func TestDropLooksAgain(t *testing.T) {
	t.Parallel()
	b := unlinked(t)
	b.exec("UPDATE once_data.s_g1 SET finished_at = clock_timestamp() + interval '1 day' WHERE key = 'k'")
	report := b.settleDown(past)
	require.Contains(t, report, "drop 1: done")
	require.Equal(t, "dropped", b.state(1))
	requireOutcome(t, b.Pool, "replay", "k")
}

func TestDropScope(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	finish(t, b.Pool, "k")
	b.rotate(slice)

	_, err := b.Pool.Exec(t.Context(), "SELECT once.drop_scope('s')")
	require.Contains(t, requireCode(t, "ON012", err).Hint, "p_discard_keys")
	requireOutcome(t, b.Pool, "replay", "k")

	// A claim that is not committed is waited for, and then counts.
	writer := b.begin(pgx.ReadCommitted)
	claim(t, writer, "new", "")
	conn := b.begin(pgx.ReadCommitted)
	connPID := pid(t, conn)
	failure := make(chan error)
	go func() {
		_, err := conn.Exec(t.Context(), "SELECT once.drop_scope('s')")
		failure <- err
	}()
	b.awaitBlocked(connPID)
	commit(t, writer)
	requireCode(t, "ON012", <-failure)

	b.exec("SELECT once.drop_scope('s', p_discard_keys => true)")
	require.Zero(t, get[int](t, b.Pool, "SELECT count(*) FROM pg_class WHERE relnamespace = 'once_data'::regnamespace"))
	require.Zero(t, get[int](t, b.Pool, "SELECT count(*) FROM pg_proc WHERE pronamespace = 'once_data'::regnamespace"))
	require.Zero(t, get[int](t, b.Pool, "SELECT (SELECT count(*) FROM once.generation) + (SELECT count(*) FROM once.epoch)"))
	b.exec("SELECT once.create_scope('s', interval '2 hours', interval '1 hour')")
	requireOutcome(t, b.Pool, "fresh", "k")
}

// The snapshot of a transaction above READ COMMITTED may be too old to see what the scope holds.
func TestDropScopeWithAnOldSnapshot(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			b := newBase(t)
			tx := b.snapshot(level)
			finish(t, b.Pool, "k")
			_, err := tx.Exec(t.Context(), "SELECT once.drop_scope('s')")
			require.Error(t, err)
			rollback(t, tx)
			requireOutcome(t, b.Pool, "replay", "k")
		})
	}
}
