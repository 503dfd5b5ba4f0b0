package txn_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/txn"
)

// together calls f n times at once, and waits.
func together(n int, f func(i int)) {
	var ready, done sync.WaitGroup
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			ready.Wait()
			f(i)
		})
	}
	done.Wait()
}

func TestCase06OneKeyFromManySides(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			pool := s.pool(func(c *pgxpool.Config) { c.MaxConns = 16 })
			const callers = 50
			var mu sync.Mutex
			outcomes := map[pgonce.Outcome]int{}
			var calls atomic.Int32
			together(callers, func(int) {
				req := request("k")
				req.TxOptions.IsoLevel = level
				result, err := txn.Run(context.Background(), pool, req, func(ctx context.Context, tx pgx.Tx) (string, error) {
					calls.Add(1)
					_, err := order("a")(ctx, tx)
					return "the result", err
				})
				if err != nil || result.Value != "the result" {
					t.Errorf("%+v: %v", result, err)
				}
				mu.Lock()
				defer mu.Unlock()
				outcomes[result.Outcome]++
			})
			require.Equal(t, map[pgonce.Outcome]int{pgonce.Fresh: 1, pgonce.Replay: callers - 1}, outcomes)
			if level == pgx.ReadCommitted {
				require.EqualValues(t, 1, calls.Load())
			}
			s.requireOnce()
			s.requireIdle(pool)
		})
	}
}

func TestManyStrictCallersOfOneKey(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	pool := s.pool(func(c *pgxpool.Config) { c.MaxConns = 8 })
	req := request("k")
	req.Strict = true
	var fresh atomic.Int32
	together(20, func(int) {
		result, err := txn.Run(context.Background(), pool, req, order("a"))
		switch {
		case err != nil:
			if !isInProgress(err) {
				t.Error(err)
			}
		case result.Value != 1:
			t.Errorf("%+v", result)
		case result.Outcome == pgonce.Fresh:
			fresh.Add(1)
		}
	})
	require.EqualValues(t, 1, fresh.Load())
	s.requireOnce()
}

func TestManyCallersOfFailingOperation(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	pool := s.pool(func(c *pgxpool.Config) { c.MaxConns = 8 })
	var calls atomic.Int32
	together(20, func(int) { // the first five fail, which hands the key on
		_, err := txn.Run(context.Background(), pool, request("k"), func(ctx context.Context, tx pgx.Tx) (int64, error) {
			id, err := order("a")(ctx, tx)
			if err == nil && calls.Add(1) <= 5 {
				err = errBusiness
			}
			return id, err
		})
		if err != nil && err != errBusiness {
			t.Error(err)
		}
	})
	require.EqualValues(t, 6, calls.Load())
	s.requireOnce()
	s.requireIdle(pool)
}

func TestCase19OtherKeysDoNotWait(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec(`SELECT once.create_scope('refunds', '7 days', '3 days')`)
	release := s.holding(txn.Request{Scope: "orders", Subject: "alice", Key: "k"})
	for _, req := range []txn.Request{
		{Scope: "orders", Subject: "alice", Key: "K"},
		{Scope: "orders", Subject: "alice", Key: "k "},
		{Scope: "orders", Subject: "bob", Key: "k"},
		{Scope: "orders", Subject: "", Key: "k"},
		{Scope: "orders", Subject: "k", Key: "alice"},
		{Scope: "orders", Subject: "alic", Key: "ek"},
		{Scope: "refunds", Subject: "alice", Key: "k"},
	} {
		req.Strict = true
		ref := fmt.Sprintf("%s/%s/%s", req.Scope, req.Subject, req.Key)
		run := func(ctx context.Context, tx pgx.Tx) (string, error) {
			_, err := order(ref)(ctx, tx)
			return ref, err
		}
		for _, outcome := range []pgonce.Outcome{pgonce.Fresh, pgonce.Replay} {
			result, err := txn.Run(t.Context(), s.Pool, req, run)
			require.NoError(t, err, ref)
			require.Equal(t, outcome, result.Outcome, ref)
			require.Equal(t, ref, result.Value)
		}
	}
	require.NoError(t, release())
	require.Equal(t, 8, s.orders())
}
