package sqltest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// claimForms are the ways to claim a key in SQL: calls that take a key.
var claimForms = map[string]string{
	"plain":    "once.claim('s', $1)",
	"deferred": "once.claim('s', $1, p_defer => true)",
	"done":     "once.claim('s', $1, p_done => true)",
	"batch":    "once.claim_many('s', ARRAY[$1])",
}

// A key's lock is for waiting in order. Switched off, what judges is still an index: in one generation no key wins twice.
func TestCase07TheIndexJudgesWithoutTheLock(t *testing.T) {
	t.Parallel()
	forLevels(t, append(higher, pgx.ReadCommitted), func(t *testing.T, level pgx.TxIsoLevel) {
		b := empty(t)
		const lock = "IF NOT pg_try_advisory_xact_lock(v_lock) THEN"
		text := get[string](t, b.Pool, "SELECT pg_catalog.pg_get_functiondef('once._compile_claim'::regproc)")
		require.Contains(t, text, lock)
		b.exec(strings.Replace(text, lock, "IF false THEN", 1))
		b.exec("SELECT once.create_scope('s', interval '2 hours', interval '1 hour')")

		for name, call := range claimForms {
			first, second := b.begin(pgx.ReadCommitted), b.begin(level)
			c := claim(t, first, name, "")
			require.Equal(t, "fresh", c.Outcome)
			complete(t, first, name, c)
			if name == "deferred" && level == pgx.ReadCommitted { // it has written nothing yet
				c := claim(t, second, name, deferred)
				require.Equal(t, "fresh", c.Outcome)
				commit(t, first)
				_, err := second.Exec(t.Context(), "SELECT once.complete('s', $1, $2, $3)", name, c.ID, c.Attempt)
				requireCode(t, "23505", err)
				continue
			}
			secondPID := pid(t, second)
			type answer struct {
				outcome string
				err     error
			}
			answers := make(chan answer)
			go func() {
				var a answer
				a.err = second.QueryRow(t.Context(), "SELECT outcome::text FROM "+call, name).Scan(&a.outcome)
				answers <- a
			}()
			b.awaitBlocked(secondPID)
			commit(t, first)
			a := <-answers
			if level == pgx.ReadCommitted {
				require.NoError(t, a.err, name)
				require.Equal(t, "replay", a.outcome, name)
				continue
			}
			requireCode(t, "40001", a.err)
		}
		require.Equal(t, len(claimForms), get[int](t, b.Pool, "SELECT count(*) FROM once_data.s"))
	})
}

// Everything that may happen to a row, and none of it meets the row's own entry in the index.
func TestCase07ARowDoesNotConflictWithItself(t *testing.T) {
	t.Parallel()
	forLevels(t, append(higher, pgx.ReadCommitted), func(t *testing.T, level pgx.TxIsoLevel) {
		b := newBase(t)
		tx := b.begin(level)
		for name, call := range claimForms {
			fresh := func() (c claimed) {
				t.Helper()
				require.NoError(t, tx.QueryRow(t.Context(), "SELECT outcome::text, attempt, claim_id::text FROM "+call, name).Scan(&c.Outcome, &c.Attempt, &c.ID))
				require.Equal(t, "fresh", c.Outcome, name)
				return c
			}
			exec(t, tx, "SAVEPOINT s")
			fresh()
			exec(t, tx, "ROLLBACK TO s")
			c := fresh()
			if name == "done" {
				continue
			}
			exec(t, tx, "SELECT once.release('s', $1, $2, $3)", name, c.ID, c.Attempt)
			c = fresh()
			complete(t, tx, name, c)
			requireOutcome(t, tx, "replay", name)
		}
		c := claim(t, tx, "unfinished", "")
		commit(t, tx)
		// Moved from generation to generation, and settled at last.
		for i := range 3 {
			b.settleDown(time.Duration(i+1) * past)
			claim(t, b.Pool, fmt.Sprint("filler", i), "")
			requireOutcome(t, b.Pool, map[bool]string{true: "in_progress", false: "parked"}[i == 0], "unfinished")
		}
		require.Greater(t, get[int](t, b.Pool, "SELECT generation FROM once.lookup('s', 'unfinished')"), 2)
		complete(t, b.Pool, "unfinished", c)
		requireOutcome(t, b.Pool, "replay", "unfinished")
		require.Equal(t, 1, get[int](t, b.Pool, "SELECT count(*) FROM once_data.s WHERE key = 'unfinished' AND state <> 'tombstone'"))
	})
}

// A generation full of finished keys is forgotten: no row is deleted, and no claim waits for any step of it.
func TestCase31ClaimsDoNotWaitForRetention(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	exec(t, b.Pool, "SELECT once.claim('s', 'k' || i, p_done => true) FROM generate_series(1, 500) AS i")
	claim(t, b.Pool, "unfinished", "")
	sessions := map[pgx.TxIsoLevel]*pgx.Conn{}
	for _, level := range append(higher, pgx.ReadCommitted) {
		sessions[level] = b.session()
		requireOutcome(t, sessions[level], "fresh", "warm "+string(level))
	}
	b.rotate(slice)
	b.settleDown(slice)

	b.exec(`CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'rows are deleted'; END $$`)
	for _, leaf := range []string{"s_g1", "s_g2"} {
		b.exec("CREATE TRIGGER refuse BEFORE DELETE ON once_data." + leaf + " FOR EACH STATEMENT EXECUTE FUNCTION public.refuse()")
	}

	maintainer := b.session()
	var steps []string
	for round := 0; !slices.Contains(steps, "drop 1: done"); round++ {
		require.Less(t, round, 1000, steps)
		tx, err := maintainer.Begin(t.Context())
		require.NoError(t, err)
		steps = append(steps, step(t, tx, past)...)
		for level, conn := range sessions { // the step has all its locks now
			for name, call := range claimForms {
				claims, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
				require.NoError(t, err)
				exec(t, claims, "SET LOCAL statement_timeout = '10s'")
				require.Equal(t, "fresh", get[string](t, claims, "SELECT outcome::text FROM "+call, fmt.Sprint(name, level, round)), steps)
				rollback(t, claims)
			}
		}
		require.NoError(t, tx.Commit(t.Context()))
	}
	require.Equal(t, []string{"carry over 1: done", "unlink 1: done", "detach 1: done", "drop 1: done"}, about(steps, 1))
	require.Equal(t, "dropped", b.state(1))
	requireOutcome(t, b.Pool, "fresh", "k1")
	requireOutcome(t, b.Pool, "parked", "unfinished")
}

// Nobody maintains the scope: the open generation takes whatever comes, nothing ends up elsewhere, and the views say so.
func TestCase36AGenerationGrowsUntilItIsRotated(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	b.exec("SELECT once.alter_scope('s', p_rotate_rows => 10)")
	exec(t, b.Pool, "UPDATE once.generation SET opened_at = opened_at - interval '30 days'")
	conn := b.session()
	exec(t, conn, "SELECT once.claim('s', 'k' || i, p_done => true) FROM generate_series(1, 500) AS i")
	require.NoError(t, conn.Close(t.Context())) // which sends its statistics
	require.Equal(t, 500, get[int](t, b.Pool, "SELECT count(*) FROM once_data.s_g1"))
	require.Equal(t, 1, get[int](t, b.Pool, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'once_data.s'::regclass"))
	require.Eventually(t, func() bool {
		return get[bool](t, b.Pool, `SELECT open_generation = 1 AND open_since < now() - interval '29 days' AND rows_estimate = 500 AND maintained_at IS NULL
			FROM once.scopes WHERE name = 's'`)
	}, patience, 10*time.Millisecond)

	require.Contains(t, b.maintain(0), "rotate 2: done")
	requireOutcome(t, b.Pool, "replay", "k1")
	requireOutcome(t, b.Pool, "fresh", "new")
	require.Equal(t, 2, get[int](t, b.Pool, "SELECT generation FROM once.lookup('s', 'new')"))
}
