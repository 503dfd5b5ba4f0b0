package sqltest

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

const deferred = ", p_defer => true"

func TestDeferredClaim(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	tx := b.begin(pgx.ReadCommitted)
	c := claim(t, tx, "k", ", p_fingerprint => 'f'"+deferred)
	require.Equal(t, "fresh", c.Outcome)
	require.Zero(t, get[int](t, tx, "SELECT count(*) FROM once_data.s"), "nothing is written yet")
	require.Zero(t, get[int](t, tx, "SELECT count(*) FROM once.lookup('s', 'k')"))
	requireOutcome(t, b.Pool, "in_progress", "k")

	exec(t, tx, "SELECT once.complete('s', 'k', $1, 1, 'done', p_fingerprint => 'f')", c.ID)
	require.Equal(t, "replay", claim(t, tx, "k", deferred).Outcome)
	require.Equal(t, "replay", claim(t, tx, "k", "").Outcome)
	commit(t, tx)
	again := claim(t, b.Pool, "k", ", p_fingerprint => 'f'"+deferred)
	require.Equal(t, claimed{Outcome: "replay", Attempt: 1, ID: c.ID, Result: []byte("done")}, again)
	require.Equal(t, "mismatch", claim(t, b.Pool, "k", ", p_fingerprint => 'other'"+deferred).Outcome)
}

func TestADeferredClaimThatIsNeverCompletedLeavesNothing(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	tx := b.begin(pgx.ReadCommitted)
	require.Equal(t, "fresh", claim(t, tx, "k", deferred).Outcome)
	commit(t, tx)
	require.Zero(t, get[int](t, b.Pool, "SELECT count(*) FROM once_data.s"))
	require.Equal(t, "fresh", claim(t, b.Pool, "k", deferred).Outcome)
}

func TestADeferredKeyIsNotClaimedTwice(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"deferred":   "SELECT once.claim('s', 'k', p_defer => true)",
		"at once":    "SELECT once.claim('s', 'k')",
		"done":       "SELECT once.claim('s', 'k', p_done => true)",
		"in a batch": "SELECT once.claim_many('s', ARRAY['a', 'k'])",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBase(t)
			tx := b.begin(pgx.ReadCommitted)
			c := claim(t, tx, "k", deferred)
			exec(t, tx, "SAVEPOINT nested")
			_, err := tx.Exec(t.Context(), sql)
			require.NotEmpty(t, requireCode(t, "ON009", err).Detail)
			exec(t, tx, "ROLLBACK TO nested")
			// The first claim is as good as before.
			complete(t, tx, "k", c)
			commit(t, tx)
			requireOutcome(t, b.Pool, "replay", "k")
			requireOutcome(t, b.Pool, "fresh", "a")
		})
	}
}

func TestADeferredClaimBelongsToItsSavepoint(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	tx := b.begin(pgx.ReadCommitted)
	outer := claim(t, tx, "outer", deferred)

	exec(t, tx, "SAVEPOINT s")
	inner := claim(t, tx, "inner", deferred)
	complete(t, tx, "outer", outer)
	exec(t, tx, "ROLLBACK TO s")
	// The inner claim is gone, and its key free; the outer one is unfinished again.
	other := b.begin(pgx.ReadCommitted)
	require.Equal(t, "fresh", claim(t, other, "inner", ", p_wait => '0'").Outcome)
	rollback(t, other)
	exec(t, tx, "SAVEPOINT s")
	_, err := tx.Exec(t.Context(), "SELECT once.complete('s', 'inner', $1, 1)", inner.ID)
	requireCode(t, "ON007", err)
	exec(t, tx, "ROLLBACK TO s")
	again := claim(t, tx, "inner", deferred)
	require.Equal(t, "fresh", again.Outcome)

	complete(t, tx, "outer", outer)
	complete(t, tx, "inner", again)
	commit(t, tx)
	requireOutcome(t, b.Pool, "replay", "outer")
	requireOutcome(t, b.Pool, "replay", "inner")
}

func TestReleaseAndFailOfADeferredClaim(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	tx := b.begin(pgx.ReadCommitted)
	c := claim(t, tx, "released", deferred)
	exec(t, tx, "SELECT once.release('s', 'released', $1, 1)", c.ID)
	c = claim(t, tx, "failed", deferred)
	exec(t, tx, "SELECT once.fail('s', 'failed', $1, 1, 'no')", c.ID)
	// Given back, it can be claimed once more.
	c = claim(t, tx, "released", deferred)
	require.Equal(t, "fresh", c.Outcome)
	exec(t, tx, "SELECT once.release('s', 'released', $1, 1)", c.ID)
	commit(t, tx)
	requireOutcome(t, b.Pool, "fresh", "released")
	requireOutcome(t, b.Pool, "failed", "failed")
}

// Deferring is ignored above READ COMMITTED, where the row has to be written to be seen.
func TestDeferringAboveReadCommitted(t *testing.T) {
	t.Parallel()
	forLevels(t, higher, func(t *testing.T, level pgx.TxIsoLevel) {
		b := newBase(t)
		tx := b.snapshot(level)
		c := claim(t, tx, "k", deferred)
		require.Equal(t, "fresh", c.Outcome)
		require.Equal(t, "in_progress", claim(t, tx, "k", deferred).Outcome)
		complete(t, tx, "k", c)
		commit(t, tx)
		requireOutcome(t, b.Pool, "replay", "k")
	})
}

func TestADeferredClaimAcrossRotations(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	finish(t, b.Pool, "before")
	tx := b.begin(pgx.ReadCommitted)
	c := claim(t, tx, "k", deferred)
	b.rotate(slice)
	finish(t, b.Pool, "between")
	requireOutcome(t, b.Pool, "in_progress", "k")
	b.rotate(2 * slice)
	complete(t, tx, "k", c)
	commit(t, tx)
	require.Equal(t, 3, get[int](t, b.Pool, "SELECT generation FROM once.lookup('s', 'k')"))
	requireOutcome(t, b.Pool, "replay", "k")
}

// A deferred claim waits for the key in one epoch and gets it in another, where the key was claimed and finished meanwhile.
func TestADeferredClaimThatWaitedAcrossARotation(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		t.Run(map[bool]string{false: "one rotation", true: "and another one"}[again], func(t *testing.T) {
			t.Parallel()
			b := newBase(t)
			finish(t, b.Pool, "before")
			first, second := b.begin(pgx.ReadCommitted), b.begin(pgx.ReadCommitted)
			c := claim(t, first, "k", deferred)
			require.Equal(t, "fresh", c.Outcome)

			secondPID := pid(t, second)
			failure := make(chan error)
			var answer claimed
			go func() {
				var err error
				answer, err = tryClaim(t.Context(), second, "k", deferred)
				failure <- err
			}()
			b.awaitBlocked(secondPID)
			b.rotate(slice)
			complete(t, first, "k", c) // into the second generation
			if again {
				finish(t, b.Pool, "between")
				b.rotate(2 * slice)
			}
			commit(t, first)
			require.NoError(t, <-failure)
			if answer.Outcome == "fresh" {
				complete(t, second, "k", answer)
				commit(t, second)
			}
			require.Equal(t, "replay", answer.Outcome, "it was finished by the one it waited for")
			require.Equal(t, c.ID, answer.ID)
		})
	}
}

// One claim leaves one row, though a rotation lies between two attempts to settle it.
func TestADeferredClaimIsSettledOnce(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	finish(t, b.Pool, "before")
	tx := b.begin(pgx.ReadCommitted)
	c := claim(t, tx, "k", deferred)
	complete(t, tx, "k", c)
	b.rotate(slice)
	exec(t, tx, "SAVEPOINT s")
	for _, call := range []string{"complete", "fail", "release"} {
		_, err := tx.Exec(t.Context(), "SELECT once."+call+"('s', 'k', $1, 1)", c.ID)
		requireCode(t, "ON007", err)
		exec(t, tx, "ROLLBACK TO s")
	}
	commit(t, tx)
	require.Equal(t, 1, get[int](t, b.Pool, "SELECT count(*) FROM once_data.s WHERE key = 'k'"))
	requireOutcome(t, b.Pool, "replay", "k")
}
