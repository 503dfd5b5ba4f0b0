package sqltest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

var higher = []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable}

// forLevels runs f at each isolation level.
func forLevels(t *testing.T, levels []pgx.TxIsoLevel, f func(t *testing.T, level pgx.TxIsoLevel)) {
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			f(t, level)
		})
	}
}

// A snapshot that is older than a claim cannot see it, and still does not win it: in the open generation, in one sealed
// since, and in one sealed and drained since.
func TestCase02AnOldSnapshotNeverWinsAClaimedKey(t *testing.T) {
	t.Parallel()
	for _, rotations := range []int{0, 1, 2} {
		for _, drained := range []bool{false, true} {
			if rotations == 0 && drained {
				continue
			}
			t.Run(fmt.Sprintf("%d rotations, drained %v", rotations, drained), func(t *testing.T) {
				t.Parallel()
				forLevels(t, higher, func(t *testing.T, level pgx.TxIsoLevel) {
					b := newBase(t)
					finish(t, b.Pool, "before")
					var old [4]pgx.Tx
					for i := range old {
						old[i] = b.snapshot(level)
					}

					finish(t, b.Pool, "done")
					unfinished := claim(t, b.Pool, "unfinished", "")
					gone := claim(t, b.Pool, "gone", "")
					b.exec("SELECT once.release('s', 'gone', $1, 1)", gone.ID)
					var writer pgx.Tx
					if rotations > 0 && !drained {
						writer = b.begin(pgx.ReadCommitted)
						claim(t, writer, "writer", "")
					}
					for i := range rotations {
						b.rotate(slice * time.Duration(i+1))
						finish(t, b.Pool, fmt.Sprint("fill", i))
					}
					if rotations > 0 {
						require.Equal(t, map[bool]string{true: "drained", false: "sealed"}[drained], b.state(1))
					}

					for i, key := range []string{"done", "unfinished"} {
						_, err := tryClaim(t.Context(), old[i], key, ", p_wait => '0'")
						requireCode(t, "40001", err)
						rollback(t, old[i])
					}
					requireOutcome(t, old[2], "replay", "before")
					c := claim(t, old[2], "new", "")
					require.Equal(t, "fresh", c.Outcome)
					complete(t, old[2], "new", c)
					requireOutcome(t, old[2], "replay", "new")
					commit(t, old[2])
					requireOutcome(t, b.Pool, "replay", "new")
					// What was given back was never claimed.
					requireOutcome(t, old[3], "fresh", "gone")

					complete(t, b.Pool, "unfinished", unfinished)
					requireOutcome(t, b.Pool, "replay", "done")
					requireOutcome(t, b.Pool, "replay", "unfinished")
					if writer != nil {
						rollback(t, writer)
					}
				})
			})
		}
	}
}

// Two claims of one key, of which neither transaction sees the other: one wins.
func TestCase01ConcurrentClaimsOfOneKeyAcrossARotation(t *testing.T) {
	t.Parallel()
	forLevels(t, append(higher, pgx.ReadCommitted), func(t *testing.T, level pgx.TxIsoLevel) {
		b := newBase(t)
		finish(t, b.Pool, "before")
		first, second := b.snapshot(level), b.snapshot(level)
		c := claim(t, first, "k", "")
		require.Equal(t, "fresh", c.Outcome)
		requireOutcome(t, second, "in_progress", "k")

		b.rotate(slice)
		secondPID := pid(t, second)
		failure := make(chan error)
		var answer claimed
		go func() {
			var err error
			answer, err = tryClaim(t.Context(), second, "k", "")
			failure <- err
		}()
		b.awaitBlocked(secondPID)
		complete(t, first, "k", c)
		commit(t, first)
		err := <-failure
		if level == pgx.ReadCommitted {
			require.NoError(t, err)
			require.Equal(t, "replay", answer.Outcome)
			return
		}
		requireCode(t, "40001", err)
	})
}

// The winner rolls back: the one that waited wins, in the generation that is open now.
func TestTheNextClaimWinsAfterARollback(t *testing.T) {
	t.Parallel()
	forLevels(t, append(higher, pgx.ReadCommitted), func(t *testing.T, level pgx.TxIsoLevel) {
		b := newBase(t)
		finish(t, b.Pool, "before")
		first, second := b.snapshot(level), b.snapshot(level)
		require.Equal(t, "fresh", claim(t, first, "k", "").Outcome)
		b.rotate(slice)
		secondPID := pid(t, second)
		failure := make(chan error)
		var answer claimed
		go func() {
			var err error
			answer, err = tryClaim(t.Context(), second, "k", "")
			failure <- err
		}()
		b.awaitBlocked(secondPID)
		rollback(t, first)
		require.NoError(t, <-failure)
		require.Equal(t, "fresh", answer.Outcome)
		require.Equal(t, 2, get[int](t, second, "SELECT generation FROM once.lookup('s', 'k')"))
		commit(t, second)
		requireOutcome(t, b.Pool, "in_progress", "k")
	})
}

// Tombstones are proofs of absence: nobody is told of them, they are never carried over, and a claim may follow one.
func TestTombstonesAreNoRows(t *testing.T) {
	t.Parallel()
	forLevels(t, higher, func(t *testing.T, level pgx.TxIsoLevel) {
		b := newBase(t)
		finish(t, b.Pool, "before")
		writer := b.begin(pgx.ReadCommitted)
		claim(t, writer, "writer", "")
		b.maintain(slice)
		require.Equal(t, "sealed", b.state(1))

		tx := b.snapshot(level)
		c := claim(t, tx, "k", "")
		require.Equal(t, "fresh", c.Outcome)
		require.Equal(t, 1, get[int](t, tx, "SELECT count(*) FROM once_data.s_g1 WHERE state = 'tombstone' AND key = 'k'"))
		exec(t, tx, "SELECT once.release('s', 'k', $1, 1)", c.ID)
		commit(t, tx)
		rollback(t, writer)

		require.Zero(t, get[int](t, b.Pool, "SELECT count(*) FROM once.lookup('s', 'k')"))
		require.Zero(t, get[int](t, b.Pool, "SELECT count(*) FROM once.in_flight WHERE key = 'k'"))
		finish(t, b.Pool, "k")
		requireOutcome(t, b.Pool, "replay", "k")
		b.settleDown(slice)
		b.settleDown(past)
		require.Equal(t, "dropped", b.state(1))
		require.Zero(t, get[int](t, b.Pool, "SELECT carried FROM once.generations WHERE generation = 1"))
		requireOutcome(t, b.Pool, "replay", "k")
	})
}

// A row that was carried over is invisible to a snapshot older than that, where it is now.
func TestAnOldSnapshotNeverWinsACarriedKey(t *testing.T) {
	t.Parallel()
	forLevels(t, higher, func(t *testing.T, level pgx.TxIsoLevel) {
		b := newBase(t)
		claim(t, b.Pool, "k", "")
		b.rotate(slice)
		b.settleDown(slice)
		finish(t, b.Pool, "fill")
		moved, unlinked, sealed := b.snapshot(level), b.snapshot(level), b.snapshot(level)
		conn := b.session()
		next := func(want string) {
			t.Helper()
			for {
				report := step(t, conn, past)
				require.NotEmpty(t, report)
				if report[0] == want {
					return
				}
				require.NotContains(t, report[0], "waiting", report)
			}
		}
		next("carry over 1: done")
		requireOutcome(t, moved, "in_progress", "k") // its snapshot sees the row where it was
		rollback(t, moved)
		next("unlink 1: done")
		next("switch 3: done") // the open generation was rotated in between
		for _, tx := range []pgx.Tx{unlinked, sealed} {
			_, err := tryClaim(t.Context(), tx, "k", "")
			requireCode(t, "40001", err)
		}
		requireOutcome(t, b.Pool, "parked", "k")
	})
}

// A call that was on its way while the epoch changed is sent back, whatever it asks for.
func TestALateCallIsSentBack(t *testing.T) {
	t.Parallel()
	forLevels(t, append(higher, pgx.ReadCommitted), func(t *testing.T, level pgx.TxIsoLevel) {
		b := newBase(t)
		c := claim(t, b.Pool, "k", "")
		late := b.snapshot(level)
		b.rotate(slice)
		for _, key := range []string{"k", "new"} {
			require.Nil(t, get[*string](t, late, lateCall(t, b, "SELECT outcome::text FROM", "s_claim_e1", key)), key)
			require.Nil(t, get[*string](t, late, lateCall(t, b, "SELECT state::text FROM", "s_lookup_e1", key)), key)
		}
		require.Nil(t, get[*bool](t, late, lateCall(t, b, "SELECT", "s_settle_e1", "k",
			"p_claim_id", "'"+c.ID+"'", "p_attempt", "1", "p_state", "'done'")))
		commit(t, late)
		require.Equal(t, 1, get[int](t, b.Pool, "SELECT count(*) FROM once_data.s WHERE state <> 'tombstone'"))
		complete(t, b.Pool, "k", c)
	})
}

// lateCall is a call of an epoch's function, with false and NULL for what is not given.
func lateCall(t *testing.T, b *base, verb, function, key string, args ...string) string {
	t.Helper()
	given := map[string]string{"p_subject": "''", "p_key": "'" + key + "'", "p_defer": "false", "p_done": "false"}
	for i := 0; i < len(args); i += 2 {
		given[args[i]] = args[i+1]
	}
	names := get[[]string](t, b.Pool, "SELECT proargnames FROM pg_proc WHERE pronamespace = 'once_data'::regnamespace AND proname = $1", function)
	var list []string
	for _, name := range names {
		value, ok := given[name]
		if !ok {
			value = "NULL"
		}
		list = append(list, name+" => "+value)
	}
	return fmt.Sprintf("%s once_data.%s(%s)", verb, function, strings.Join(list, ", "))
}

// Above READ COMMITTED a settled claim's transaction that cannot see the row retries, it does not hear that it lost.
func TestSettlingBeyondTheSnapshot(t *testing.T) {
	t.Parallel()
	forLevels(t, higher, func(t *testing.T, level pgx.TxIsoLevel) {
		b := newBase(t)
		tx := b.snapshot(level)
		c := claim(t, b.Pool, "k", "")
		_, err := tx.Exec(t.Context(), "SELECT once.complete('s', 'k', $1, 1)", c.ID)
		requireCode(t, "40001", err)
		rollback(t, tx)

		tx = b.snapshot(level)
		complete(t, b.Pool, "k", c)
		_, err = tx.Exec(t.Context(), "SELECT once.release('s', 'k', $1, 1)", c.ID)
		requireCode(t, "40001", err)
	})
}

// READ UNCOMMITTED is READ COMMITTED by another name.
func TestReadUncommitted(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	tx := b.begin(pgx.ReadUncommitted)
	c := claim(t, tx, "k", deferred)
	require.Zero(t, get[int](t, tx, "SELECT count(*) FROM once_data.s"))
	complete(t, tx, "k", c)
	exec(t, tx, "SAVEPOINT s")
	_, err := tx.Exec(t.Context(), "SELECT once.complete('s', 'k', $1, 1)", c.ID)
	requireCode(t, "ON007", err)
	exec(t, tx, "ROLLBACK TO s")
	_, err = tx.Exec(t.Context(), "SELECT once.drop_scope('s')")
	require.NotContains(t, requireCode(t, "ON012", err).Hint, "READ COMMITTED")
	exec(t, tx, "ROLLBACK TO s")
	commit(t, tx)
	requireOutcome(t, b.Pool, "replay", "k")
}
