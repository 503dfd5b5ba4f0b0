package txn_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/txn"
)

// rotate opens the n-th generation after the first: it acts as if as many halves of a window had gone by. It waits for no
// transaction.
func (s *shop) rotate(n int) {
	s.t.Helper()
	s.exec(fmt.Sprintf("CALL once.maintain('orders', p_wait => '0', p_now => now() + %d * interval '4 days')", n))
	require.Equal(s.t, 1, s.count("once_data.orders_fence WHERE last_value = $1", n+1), "the epoch")
}

// forget runs maintenance until the functions of all epochs but the current one are dropped.
func (s *shop) forget() {
	s.t.Helper()
	eventually(s.t, func() bool {
		s.exec("CALL once.maintain('orders', p_wait => '1 second')")
		return s.count("pg_proc WHERE pronamespace = 'once_data'::regnamespace AND proname ~ '^orders_claim_e'") == 1
	}, "the old epoch is not forgotten")
}

func eachLevel(t *testing.T, test func(t *testing.T, s *shop, req func(key string) txn.Request)) {
	t.Helper()
	all := newShop(t)
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			test(t, all.again(t), func(key string) txn.Request {
				r := request(key)
				r.TxOptions.IsoLevel = level
				return r
			})
		})
	}
}

func TestRotationBetweenClaimAndCompletion(t *testing.T) {
	t.Parallel()
	eachLevel(t, func(t *testing.T, s *shop, req func(string) txn.Request) {
		conn := s.conn()
		generation := 0
		for range 3 { // through the dispatcher, by the epoch, and by the next one
			key := fmt.Sprint("k", generation)
			rotated := false
			result, err := txn.Run(t.Context(), conn, req(key), func(ctx context.Context, tx pgx.Tx) (string, error) {
				_, err := order(key)(ctx, tx)
				require.NoError(t, err)
				if !rotated {
					rotated = true
					if generation == 0 { // an empty generation is never rotated
						_, err := txn.Consume(ctx, s.Pool, request("filler"), func(context.Context, pgx.Tx) error { return nil })
						require.NoError(t, err)
					} else {
						_, err := txn.Consume(ctx, s.Pool, request(key+" filler"), func(context.Context, pgx.Tx) error { return nil })
						require.NoError(t, err)
					}
					generation++
					s.rotate(generation)
				}
				return key, nil
			})
			require.NoError(t, err)
			require.Equal(t, pgonce.Fresh, result.Outcome)
			for _, db := range []txn.Beginner{conn, s.Pool} {
				again, err := txn.Run(t.Context(), db, req(key), never[string](t))
				require.NoError(t, err)
				require.Equal(t, pgonce.Replay, again.Outcome)
				require.Equal(t, key, again.Value)
			}
			require.Equal(t, 1, s.count("once_data.orders WHERE key = $1 AND state = 'done'", key))
		}
		require.Equal(t, 3, s.orders())
	})
}

func TestRotationBetweenTwoCallsOnOneConnection(t *testing.T) {
	t.Parallel()
	for _, forgotten := range []bool{false, true} {
		t.Run(fmt.Sprint("forgotten ", forgotten), func(t *testing.T) {
			t.Parallel()
			eachLevel(t, func(t *testing.T, s *shop, req func(string) txn.Request) {
				conn := s.conn()
				for i := range 3 {
					key := fmt.Sprint("k", i)
					result, err := txn.Run(t.Context(), conn, req(key), order(key))
					require.NoError(t, err)
					require.Equal(t, pgonce.Fresh, result.Outcome, key)
					s.rotate(i + 1)
					if forgotten {
						s.forget()
					}
					for j := range i + 1 { // every key so far, first of all by the epoch that is over
						again, err := txn.Run(t.Context(), conn, req(fmt.Sprint("k", j)), never[int64](t))
						require.NoError(t, err)
						require.Equal(t, pgonce.Replay, again.Outcome)
						require.Equal(t, int64(j+1), again.Value)
					}
				}
				require.Equal(t, 3, s.orders())
				require.Equal(t, 3, s.keys())
			})
		})
	}
}

func TestAFreshClaimByAnEpochThatIsOver(t *testing.T) {
	t.Parallel()
	for _, forgotten := range []bool{false, true} {
		t.Run(fmt.Sprint("forgotten ", forgotten), func(t *testing.T) {
			t.Parallel()
			eachLevel(t, func(t *testing.T, s *shop, req func(string) txn.Request) {
				conn := s.conn()
				_, err := txn.Run(t.Context(), conn, req("first"), order("first"))
				require.NoError(t, err)
				s.rotate(1)
				if forgotten {
					s.forget()
				}
				// The conn still goes by epoch 1; the other side has the key meanwhile.
				_, err = txn.Run(t.Context(), s.Pool, req("theirs"), order("theirs"))
				require.NoError(t, err)
				result, err := txn.Run(t.Context(), conn, req("ours"), order("ours"))
				require.NoError(t, err)
				require.Equal(t, pgonce.Fresh, result.Outcome)
				again, err := txn.Run(t.Context(), conn, req("theirs"), never[int64](t))
				require.NoError(t, err)
				require.Equal(t, pgonce.Replay, again.Outcome)
				require.Equal(t, 1, s.count("once_data.orders_g2 WHERE key = 'ours'"))
			})
		})
	}
}

// A caller that waited by an epoch that is over must not miss what the holder stored in the next one, wherever the
// caller's own completion would go.
func TestCase01AWaitThatARotationPasses(t *testing.T) {
	t.Parallel()
	eachLevel(t, func(t *testing.T, s *shop, req func(string) txn.Request) {
		_, err := txn.Run(t.Context(), s.Pool, req("first"), order("first"))
		require.NoError(t, err)
		release := s.holding(req("k"))
		waiter := async(func() error {
			result, err := txn.Run(context.Background(), s.Pool, req("k"), func(ctx context.Context, tx pgx.Tx) (int64, error) {
				t.Error("the function was called")
				s.exec("CALL once.maintain('orders', p_wait => '0', p_now => now() + interval '8 days')")
				return order("again")(ctx, tx)
			})
			if err == nil && result.Outcome != pgonce.Replay {
				t.Errorf("%+v", result)
			}
			return err
		})
		s.awaitLock("advisory")
		s.rotate(1)
		require.NoError(t, release())
		require.NoError(t, receive(t, waiter))
		require.Equal(t, 1, s.count("once_data.orders WHERE key = 'k'"))
		require.Equal(t, 2, s.orders())
	})
}

func TestAScopeThatIsDroppedAndCreatedAgain(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	conn := s.conn()
	for range 2 {
		result, err := txn.Run(t.Context(), conn, request("k"), order("a"))
		require.NoError(t, err)
		require.Equal(t, pgonce.Fresh, result.Outcome)
		s.exec("SELECT once.drop_scope('orders', true)")
		_, err = txn.Run(t.Context(), conn, request("k"), never[int64](t))
		require.Equal(t, pgonce.CodeUnknownScope, pgonce.Code(err))
		_, err = txn.Run(t.Context(), conn, request("new"), never[int64](t))
		require.Equal(t, pgonce.CodeUnknownScope, pgonce.Code(err))
		s.exec("SELECT once.create_scope('orders', '7 days', '3 days')")
	}
	require.Equal(t, 2, s.orders())
}

// The fence is read whatever the snapshot, and so must be the functions that it names.
func TestARotationInTheMiddleOfATransaction(t *testing.T) {
	t.Parallel()
	eachIsolation(t, func(t *testing.T, s *shop, options pgx.TxOptions) {
		_, err := txn.Run(t.Context(), s.Pool, request("first"), order("first"))
		require.NoError(t, err)
		tx := s.begin(options)
		for n, key := range []string{"a", "b", "c"} {
			claimed, err := txn.Claim(t.Context(), tx, request(key))
			require.NoError(t, err)
			require.NoError(t, claimed.Complete(t.Context(), key))
			if n > 0 {
				_, err := txn.Run(t.Context(), s.Pool, request(key+" of another"), order("b"))
				require.NoError(t, err)
			}
			s.rotate(n + 1)
		}
		require.NoError(t, tx.Commit(t.Context()))
		for _, key := range []string{"a", "b", "c"} {
			_, again := s.claim(request(key))
			require.Equal(t, pgonce.Replay, again.Outcome)
		}
	})
}
