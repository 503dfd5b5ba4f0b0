package sqltest

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/internal/pgbouncer"
)

func TestAStrictClaimDoesNotWait(t *testing.T) {
	t.Parallel()
	forLevels(t, append(higher, pgx.ReadCommitted), func(t *testing.T, level pgx.TxIsoLevel) {
		b := newBase(t)
		holder, other := b.begin(pgx.ReadCommitted), b.begin(level)
		require.Equal(t, "fresh", claim(t, holder, "k", "").Outcome)
		for _, wait := range []string{"0", "-1 second"} {
			// Did it wait, it would wait for ever: the holder ends with the test.
			require.Equal(t, "in_progress", claim(t, other, "k", ", p_wait => '"+wait+"'").Outcome)
		}
		require.Equal(t, time.Second, get[time.Duration](t, other, "SELECT retry_after FROM once.claim('s', 'k', p_wait => '0')"))
		requireOutcome(t, other, "fresh", "l")
		commit(t, other)
	})
}

func TestABoundedWait(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	holder, other := b.begin(pgx.ReadCommitted), b.begin(pgx.ReadCommitted)
	require.Equal(t, "fresh", claim(t, holder, "k", "").Outcome)
	exec(t, other, "SET lock_timeout = '1min'")
	began := time.Now()
	require.Equal(t, "in_progress", claim(t, other, "k", ", p_wait => '200 ms'").Outcome)
	require.GreaterOrEqual(t, time.Since(began), 200*time.Millisecond)
	require.Equal(t, "1min", get[string](t, other, "SHOW lock_timeout"))

	// The wait succeeds when the holder ends in time.
	complete(t, holder, "k", claimed{ID: get[string](t, holder, "SELECT claim_id::text FROM once.lookup('s', 'k')"), Attempt: 1})
	otherPID := pid(t, other)
	answer := make(chan string)
	go func() {
		c, err := tryClaim(t.Context(), other, "k", ", p_wait => '20 s'")
		if err != nil {
			c.Outcome = err.Error()
		}
		answer <- c.Outcome
	}()
	b.awaitBlocked(otherPID)
	commit(t, holder)
	require.Equal(t, "replay", <-answer)
	require.Equal(t, "1min", get[string](t, other, "SHOW lock_timeout"))
	commit(t, other)
}

// The caller's lock_timeout bounds the wait too; running into it costs the caller nothing.
func TestTheCallersLockTimeout(t *testing.T) {
	t.Parallel()
	for _, wait := range []string{"NULL", "'1 minute'"} {
		for _, scope := range []string{"", "LOCAL "} {
			t.Run(scope+wait, func(t *testing.T) {
				t.Parallel()
				if scope == "" {
					pgbouncer.NeedsSession(t, "its lock_timeout after the transaction")
				}
				b := newBase(t)
				b.exec("CREATE TABLE public.work (n integer)")
				holder := b.begin(pgx.ReadCommitted)
				require.Equal(t, "fresh", claim(t, holder, "k", "").Outcome)

				conn := b.session()
				exec(t, conn, "BEGIN")
				exec(t, conn, "SET "+scope+"lock_timeout = '100ms'")
				exec(t, conn, "INSERT INTO public.work VALUES (1)")
				began := time.Now()
				require.Equal(t, "in_progress", claim(t, conn, "k", ", p_wait => "+wait).Outcome)
				require.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond)
				require.Equal(t, "100ms", get[string](t, conn, "SHOW lock_timeout"))
				finish(t, conn, "l")
				exec(t, conn, "COMMIT")
				require.Equal(t, 1, get[int](t, b.Pool, "SELECT count(*) FROM public.work"))
				require.Equal(t, map[string]string{"": "100ms", "LOCAL ": "0"}[scope], get[string](t, conn, "SHOW lock_timeout"))
			})
		}
	}
}

// Duplicates of a finished key are answered at once, even while somebody holds its lock.
func TestCase07DuplicatesOfAFinishedKeyDoNotQueue(t *testing.T) {
	t.Parallel()
	forLevels(t, append(higher, pgx.ReadCommitted), func(t *testing.T, level pgx.TxIsoLevel) {
		b := newBase(t)
		finish(t, b.Pool, "done")
		c := claim(t, b.Pool, "failed", ", p_fingerprint => 'f'")
		b.exec("SELECT once.fail('s', 'failed', $1, 1)", c.ID)
		claim(t, b.Pool, "parked", "")
		b.exec("UPDATE once_data.s_g1 SET state = 'parked' WHERE key = 'parked'")
		claim(t, b.Pool, "open", ", p_fingerprint => 'f'")

		holder := b.begin(pgx.ReadCommitted)
		for _, key := range []string{"done", "failed", "parked", "open"} {
			claim(t, holder, key, "")
		}
		other := b.snapshot(level)
		exec(t, other, "SET LOCAL statement_timeout = '5s'")
		require.Equal(t, "replay", claim(t, other, "done", "").Outcome)
		require.Equal(t, "replay", claim(t, other, "done", ", p_defer => true").Outcome)
		require.Equal(t, "failed", claim(t, other, "failed", "").Outcome)
		require.Equal(t, "mismatch", claim(t, other, "failed", ", p_fingerprint => 'other'").Outcome)
		require.Equal(t, "parked", claim(t, other, "parked", "").Outcome)
		require.Equal(t, "mismatch", claim(t, other, "open", ", p_fingerprint => 'other'").Outcome)
		commit(t, other)
	})
}

func TestKeysAndSubjectsAndScopesDoNotMeet(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	b.exec("SELECT once.create_scope('other', interval '2 hours', interval '1 hour')")
	holder, other := b.begin(pgx.ReadCommitted), b.begin(pgx.ReadCommitted)
	exec(t, other, "SET LOCAL statement_timeout = '5s'")
	require.Equal(t, "fresh", claim(t, holder, "k", ", p_subject => 'a'").Outcome)
	require.Equal(t, "fresh", claim(t, other, "k", ", p_subject => 'b'").Outcome)
	require.Equal(t, "fresh", claim(t, other, "k", "").Outcome)
	require.Equal(t, "fresh", claim(t, other, "a", ", p_subject => 'k'").Outcome)
	require.Equal(t, "fresh", get[string](t, other, "SELECT outcome::text FROM once.claim('other', 'k', p_subject => 'a')"))
}

// Batches take their keys in one order: they wait for each other, and never in a circle.
func TestBatchesDoNotDeadlock(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	first, second := b.begin(pgx.ReadCommitted), b.begin(pgx.ReadCommitted)
	outcomes := func(q querier, keys ...string) []string {
		var list []string
		require.NoError(t, q.QueryRow(t.Context(),
			"SELECT array_agg(key || ' ' || outcome::text ORDER BY position) FROM once.claim_many('s', $1)", keys).Scan(&list))
		return list
	}
	require.Equal(t, []string{"b fresh", "a fresh", "b in_progress"}, outcomes(first, "b", "a", "b"))
	secondPID := pid(t, second)
	answer := make(chan []string)
	go func() { answer <- outcomes(second, "b", "c", "a") }()
	b.awaitBlocked(secondPID)
	rollback(t, first)
	require.Equal(t, []string{"b fresh", "c fresh", "a fresh"}, <-answer)
}

// A role that may settle cannot turn a claim into what only maintenance writes.
func TestSettledStatesAreDoneAndFailed(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	for _, state := range []string{"tombstone", "parked", "in_progress"} {
		_, err := b.Pool.Exec(t.Context(), `SELECT once._settle('s', 'k', c.claim_id, c.attempt, $1::text::once.claim_state, NULL, NULL, NULL, '', NULL)
			FROM once.claim('s', 'k') AS c`, state)
		require.Equal(t, "ON004", pgonce.Code(err), "%v", err)
	}
}
