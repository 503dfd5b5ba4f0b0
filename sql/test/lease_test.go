package sqltest

import (
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// lease claims a key of the scope s for work that leaves the database.
func lease(t testing.TB, q querier, key string) claimed {
	t.Helper()
	c, err := tryLease(t, q, key)
	require.NoError(t, err)
	return c
}

func tryLease(t testing.TB, q querier, key string) (c claimed, err error) {
	err = q.QueryRow(t.Context(), "SELECT outcome::text, attempt, coalesce(claim_id::text, ''), result FROM once.claim_leased('s', $1)", key).
		Scan(&c.Outcome, &c.Attempt, &c.ID, &c.Result)
	return c, err
}

func heartbeat(t testing.TB, q querier, key string, c claimed) error {
	_, err := q.Exec(t.Context(), "SELECT once.heartbeat('s', $1, $2, $3)", key, c.ID, c.Attempt)
	return err
}

// expire lets the lease of a key run out.
func (b *base) expire(key string) {
	b.t.Helper()
	require.Equal(b.t, 1, get[int](b.t, b.Pool,
		"WITH u AS (UPDATE once_data.s SET lease_until = clock_timestamp() - interval '1 second' WHERE key = $1 AND state = 'in_progress' RETURNING 1) SELECT count(*) FROM u", key))
}

func TestCase11ADeadProcessHoldsItsKeyForALeaseOnly(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	first := lease(t, b.Pool, "k")
	const rounds, callers = 3, 8
	for round := range rounds {
		b.expire("k")
		var group sync.WaitGroup
		answers := make([]claimed, callers)
		levels := append(higher, pgx.ReadCommitted)
		for i := range callers {
			tx := b.begin(levels[i%len(levels)])
			group.Go(func() {
				var err error
				if answers[i], err = tryLease(t, tx, "k"); err != nil && !isCode(err, "40001") {
					t.Error(err)
				}
				_ = tx.Commit(t.Context())
			})
		}
		group.Wait()
		winners := 0
		for _, a := range answers {
			if a.Outcome == "fresh" {
				winners++
				require.Equal(t, round+2, a.Attempt)
			}
		}
		require.Equal(t, 1, winners, answers)
	}
	requireCode(t, "ON007", heartbeat(t, b.Pool, "k", first))
}

// A takeover that is rolled back leaves the earlier attempt in place, and its own attempt, whose number comes back, is nobody's.
func TestATakeoverThatIsRolledBack(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	first := lease(t, b.Pool, "k")
	b.expire("k")
	undone := b.begin(pgx.ReadCommitted)
	exec(t, undone, "SAVEPOINT a")
	ghost := lease(t, undone, "k")
	require.Equal(t, 2, ghost.Attempt)
	exec(t, undone, "ROLLBACK TO a")
	commit(t, undone)
	require.NoError(t, heartbeat(t, b.Pool, "k", first))

	b.expire("k")
	second := lease(t, b.Pool, "k")
	require.Equal(t, 2, second.Attempt)
	requireCode(t, "ON007", heartbeat(t, b.Pool, "k", ghost))
	requireCode(t, "ON007", heartbeat(t, b.Pool, "k", first))
	complete(t, b.Pool, "k", second)
}

// A leased claim is renewed, taken over and finished in the generation that it was made in, sealed or not, until retirement
// carries it over.
func TestALeaseAcrossGenerations(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	finish(t, b.Pool, "old")
	held, lost := lease(t, b.Pool, "held"), lease(t, b.Pool, "lost")
	b.rotate(slice)
	require.NoError(t, heartbeat(t, b.Pool, "held", held))
	b.expire("lost")
	taken := lease(t, b.Pool, "lost")
	require.Equal(t, 2, taken.Attempt)
	requireCode(t, "ON007", heartbeat(t, b.Pool, "lost", lost))

	b.expire("lost")
	b.settleDown(past)
	b.settleDown(past)
	require.Equal(t, "dropped", b.state(1))
	require.NoError(t, heartbeat(t, b.Pool, "held", held), "its lease is running: it goes on")
	require.Equal(t, "parked", lease(t, b.Pool, "lost").Outcome, "its lease was over when the generation expired")
	require.Equal(t, "unfinished when its generation expired", get[string](t, b.Pool, "SELECT note FROM once.lookup('s', 'lost')"))
	b.expire("held")
	require.Equal(t, 2, lease(t, b.Pool, "held").Attempt)
	requireCode(t, "ON007", heartbeat(t, b.Pool, "held", held))
}

// Above READ COMMITTED the snapshot may be older than a heartbeat or a takeover: that is a serialization failure, never a second
// takeover, and never "lost".
func TestALeaseUnderAnOldSnapshot(t *testing.T) {
	t.Parallel()
	forLevels(t, higher, func(t *testing.T, level pgx.TxIsoLevel) {
		b := newBase(t)
		first := lease(t, b.Pool, "renewed")
		lease(t, b.Pool, "taken")
		b.expire("renewed")
		b.expire("taken")
		for _, key := range []string{"renewed", "taken"} {
			old := b.snapshot(level)
			if key == "renewed" {
				require.NoError(t, heartbeat(t, b.Pool, key, first))
			} else {
				require.Equal(t, 2, lease(t, b.Pool, key).Attempt)
			}
			_, err := tryLease(t, old, key)
			require.True(t, isCode(err, "40001"), "%v", err)
		}
		old := b.snapshot(level)
		young := lease(t, b.Pool, "young")
		require.True(t, isCode(heartbeat(t, old, "young", young), "40001"))
	})
}

// Whoever maintains goes by the row as it is under the key's lock, not by what was seen before.
func TestCase17MaintenanceGoesByTheRowUnderTheLock(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	lease(t, b.Pool, "first")
	lease(t, b.Pool, "taken")
	finished := lease(t, b.Pool, "finished")
	b.rotate(slice)
	b.settleDown(slice)
	for _, key := range []string{"first", "taken", "finished"} {
		b.expire(key)
	}

	// The carrying over has chosen all three, and waits at the first for who writes the same key to the open generation.
	writer := b.begin(pgx.ReadCommitted)
	exec(t, writer, `INSERT INTO once_data.s_g2 (claimed_at, claim_id, generation, attempt, state, subject, key)
		VALUES (now(), gen_random_uuid(), 2, 1, 'in_progress', '', 'first')`)
	mover := b.begin(pgx.ReadCommitted)
	moverPID := pid(t, mover)
	report := make(chan []string, 1)
	go func() { report <- step(t, mover, past) }()
	b.awaitBlocked(moverPID)
	taken := lease(t, b.Pool, "taken")
	require.Equal(t, 2, taken.Attempt)
	complete(t, b.Pool, "finished", finished)
	rollback(t, writer)
	require.Equal(t, []string{"carry over 1: done"}, <-report)
	commit(t, mover)

	require.Equal(t, "in_progress 2", get[string](t, b.Pool, "SELECT concat_ws(' ', state, attempt) FROM once.lookup('s', 'taken')"))
	require.NoError(t, heartbeat(t, b.Pool, "taken", taken))
	require.Equal(t, "done", get[string](t, b.Pool, "SELECT state::text FROM once.lookup('s', 'finished')"))
}
