package sqltest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// Many clients claim few keys, at mixed isolation levels, with snapshots taken early, transactions held open, rollbacks and
// savepoints, while generations rotate all the time. Nothing is retired, so a key may win once and never again.
func TestOneWinnerAcrossRotations(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	b.exec("SELECT once.alter_scope('s', p_archive => 'keep')")
	b.exec("CREATE TABLE public.win (key text NOT NULL)")
	const clients, keys = 10, 60
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()

	var group sync.WaitGroup
	group.Go(func() { // the maintainer: the clock jumps by a slice each time
		conn := connect(t, b.URL)
		for now := time.Now(); ctx.Err() == nil; time.Sleep(40 * time.Millisecond) {
			now = now.Add(slice)
			_, err := conn.Exec(context.Background(), "CALL once.maintain('s', interval '100 ms', $1::timestamptz, NULL)", now)
			if err != nil {
				t.Errorf("maintain: %v", err)
				return
			}
		}
	})
	for client := range clients {
		group.Go(func() {
			conn := connect(t, b.URL)
			random := rand.New(rand.NewPCG(uint64(client), 1))
			for round := 0; ctx.Err() == nil; round++ {
				// Hot keys that all clients work on at the same time, and new ones as time goes on.
				key := fmt.Sprintf("k%d", time.Since(start)/(40*time.Millisecond)*4+time.Duration(random.IntN(4)))
				if random.IntN(4) == 0 {
					key = fmt.Sprintf("k%d", random.IntN(keys))
				}
				err := raceOnce(conn, random, key)
				var pgErr *pgconn.PgError
				if err != nil && !(errors.As(err, &pgErr) && (pgErr.Code == "40001" || pgErr.Code == "40P01")) {
					t.Errorf("client %d, key %s: %v", client, key, err)
					return
				}
			}
		})
	}
	group.Wait()

	wins := get[int](t, b.Pool, "SELECT count(*) FROM public.win")
	require.Equal(t, wins, get[int](t, b.Pool, "SELECT count(DISTINCT key) FROM public.win"), "a key won twice")
	rows := get[int](t, b.Pool, "SELECT count(*) FROM once_data.s WHERE state = 'done'")
	require.Equal(t, wins, rows, "every win has its row, and no other key has one")
	generations := get[int](t, b.Pool, "SELECT count(*) FROM once.generation")
	t.Logf("%d wins over %d generations", wins, generations)
	require.Greater(t, wins, 50)
	require.Greater(t, generations, 10)
}

// raceOnce claims a key in one transaction, and commits the win, or rolls back.
func raceOnce(conn *pgx.Conn, random *rand.Rand, key string) error {
	ctx := context.Background()
	level := []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}[random.IntN(3)]
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	if random.IntN(2) == 0 { // an early snapshot
		if _, err := tx.Exec(ctx, "SELECT FROM public.win LIMIT 1"); err != nil {
			return err
		}
		time.Sleep(time.Duration(random.IntN(150)) * time.Millisecond)
	}
	if random.IntN(5) == 0 { // a claim that a savepoint takes back
		if _, err := tx.Exec(ctx, "SAVEPOINT s; SELECT once.claim('s', 'undone ' || pg_backend_pid()); ROLLBACK TO s"); err != nil {
			return err
		}
	}
	var wait *time.Duration
	if random.IntN(2) == 0 {
		wait = new(time.Duration)
	}
	deferred, done := random.IntN(3) == 0, random.IntN(3) == 0
	var outcome string
	var claimID *string
	err = tx.QueryRow(ctx, "SELECT outcome, claim_id::text FROM once.claim('s', $1, p_wait => $2, p_defer => $3, p_done => $4)",
		key, wait, deferred, done).Scan(&outcome, &claimID)
	if err != nil || outcome != "fresh" {
		return err
	}
	if _, err := tx.Exec(ctx, "INSERT INTO public.win (key) VALUES ($1)", key); err != nil {
		return err
	}
	if random.IntN(3) == 0 {
		time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond)
	}
	if random.IntN(4) == 0 {
		return nil // rolled back
	}
	if !done {
		if _, err := tx.Exec(ctx, "SELECT once.complete('s', $1, $2::uuid, 1)", key, claimID); err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}
