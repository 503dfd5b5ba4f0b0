package txn_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/txn"
)

var errBusiness = errors.New("out of stock")

func isInProgress(err error) bool { return errors.Is(err, pgonce.ErrInProgress) }

// eachHandle runs a test over a pool, a connection of one, a connection alone, and a Beginner of somebody else's.
func eachHandle(t *testing.T, test func(t *testing.T, s *shop, db txn.Beginner)) {
	t.Helper()
	all := newShop(t)
	handles(t, all, test)
	t.Run("pool conn", func(t *testing.T) {
		s := all.again(t)
		conn, err := s.Pool.Acquire(t.Context())
		require.NoError(t, err)
		test(t, s, conn)
		conn.Release()
		s.requireIdle(s.Pool)
	})
	t.Run("wrapper", func(t *testing.T) {
		s := all.again(t)
		pool := s.pool(func(c *pgxpool.Config) { c.MaxConns = 2 })
		test(t, s, wrapper{pool})
		s.requireIdle(pool)
	})
}

// eachRetryingHandle runs a test over a pool and a connection alone.
func eachRetryingHandle(t *testing.T, test func(t *testing.T, s *shop, db txn.Beginner)) {
	t.Helper()
	handles(t, newShop(t), test)
}

func handles(t *testing.T, all *shop, test func(t *testing.T, s *shop, db txn.Beginner)) {
	t.Helper()
	t.Run("pool", func(t *testing.T) {
		s := all.again(t)
		pool := s.pool(func(c *pgxpool.Config) { c.MaxConns = 2 })
		test(t, s, pool)
		s.requireIdle(pool)
	})
	t.Run("conn", func(t *testing.T) {
		s := all.again(t)
		test(t, s, s.conn())
		s.requireIdle(s.Pool)
	})
}

// wrapper is a Beginner of somebody else's.
type wrapper struct{ pool *pgxpool.Pool }

func (w wrapper) Begin(ctx context.Context) (pgx.Tx, error) { return w.pool.Begin(ctx) }

// requireFreshNow says that the key is as good as new.
func requireFreshNow(t *testing.T, s *shop, db txn.Beginner, key string) {
	t.Helper()
	result, err := txn.Run(t.Context(), db, request(key), order("at last"))
	require.NoError(t, err)
	require.Equal(t, pgonce.Fresh, result.Outcome)
	s.requireOnce()
}

func TestAnErrorLeavesNoTraceAndCanBeRetried(t *testing.T) {
	t.Parallel()
	eachHandle(t, func(t *testing.T, s *shop, db txn.Beginner) {
		for range 3 {
			result, err := txn.Run(t.Context(), db, request("k"), func(ctx context.Context, tx pgx.Tx) (int64, error) {
				id, err := order("a")(ctx, tx)
				require.NoError(t, err)
				return id, errBusiness
			})
			require.Equal(t, errBusiness, err, "the error is given as it is")
			require.Zero(t, result)
			s.requireNothing()
		}
		requireFreshNow(t, s, db, "k")
	})
}

func TestAPanicRollsBackAndGoesOn(t *testing.T) {
	t.Parallel()
	eachHandle(t, func(t *testing.T, s *shop, db txn.Beginner) {
		require.PanicsWithValue(t, "bug", func() {
			_, _ = txn.Run(t.Context(), db, request("k"), func(ctx context.Context, tx pgx.Tx) (int64, error) {
				_, err := order("a")(ctx, tx)
				require.NoError(t, err)
				panic("bug")
			})
		})
		s.requireNothing()
		requireFreshNow(t, s, db, "k")
	})
}

func TestGoexitRollsBack(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = txn.Run(t.Context(), s.Pool, request("k"), func(ctx context.Context, tx pgx.Tx) (int64, error) {
			_, err := order("a")(ctx, tx)
			if err == nil {
				runtime.Goexit()
			}
			return 0, err
		})
	}()
	receive(t, done)
	s.requireIdle(s.Pool)
	s.requireNothing()
}

func TestTheFunctionMustNotEndTheTransaction(t *testing.T) {
	t.Parallel()
	commits := map[string]func(context.Context, pgx.Tx) error{
		"COMMIT": func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, "COMMIT"); return err },
		"COMMIT and BEGIN": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "COMMIT; BEGIN", pgx.QueryExecModeSimpleProtocol)
			return err
		},
		"COMMIT AND CHAIN": func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, "COMMIT AND CHAIN"); return err },
	}
	rollbacks := map[string]func(context.Context, pgx.Tx) error{
		"Rollback": func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) },
		"ROLLBACK": func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, "ROLLBACK"); return err },
		"ROLLBACK and BEGIN": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "ROLLBACK; BEGIN", pgx.QueryExecModeSimpleProtocol)
			return err
		},
	}
	eachHandle(t, func(t *testing.T, s *shop, db txn.Beginner) {
		test := func(name string, end func(context.Context, pgx.Tx) error, orders int) {
			for range 2 {
				_, err := txn.Run(t.Context(), db, request(name), func(ctx context.Context, tx pgx.Tx) (int64, error) {
					id, err := order(name)(ctx, tx)
					require.NoError(t, err)
					require.NoError(t, end(ctx, tx))
					return id, nil
				})
				require.Error(t, err, name)
				require.Zero(t, s.keys(), "%s: no key is taken for work that may not have been done", name)
				require.Equal(t, orders, s.orders(), name)
				s.exec("DELETE FROM public.orders")
			}
		}
		for name, end := range commits {
			test(name, end, 1)
		}
		for name, end := range rollbacks {
			test(name, end, 0)
		}
		requireFreshNow(t, s, db, "COMMIT")
	})
}

func TestCommitIsRefusedToTheFunction(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, db := range []txn.Beginner{s.Pool, s.conn()} {
		_, err := txn.Run(t.Context(), db, request("k"), func(ctx context.Context, tx pgx.Tx) (int64, error) {
			id, err := order("a")(ctx, tx)
			require.NoError(t, err)
			require.ErrorContains(t, tx.Commit(ctx), "COMMIT")
			return id, errBusiness
		})
		require.ErrorIs(t, err, errBusiness)
		s.requireNothing()
	}
}

func TestASwallowedSQLErrorIsNotASuccess(t *testing.T) {
	t.Parallel()
	eachHandle(t, func(t *testing.T, s *shop, db txn.Beginner) {
		_, err := txn.Run(t.Context(), db, request("k"), func(ctx context.Context, tx pgx.Tx) (int64, error) {
			id, err := order("a")(ctx, tx)
			require.NoError(t, err)
			_, err = tx.Exec(ctx, "SELECT 1/0")
			require.Error(t, err)
			return id, nil
		})
		require.Error(t, err)
		s.requireNothing()
		requireFreshNow(t, s, db, "k")
	})
}

func TestAnErrorAtCommitIsGiven(t *testing.T) {
	t.Parallel()
	eachHandle(t, func(t *testing.T, s *shop, db txn.Beginner) {
		s.exec("ALTER TABLE public.orders ADD UNIQUE (ref) DEFERRABLE INITIALLY DEFERRED")
		_, err := txn.Run(t.Context(), db, request("k"), func(ctx context.Context, tx pgx.Tx) (int64, error) {
			_, err := order("a")(ctx, tx)
			require.NoError(t, err)
			return order("a")(ctx, tx)
		})
		require.Equal(t, "23505", pgonce.Code(err), "%v", err)
		s.requireNothing()
		requireFreshNow(t, s, db, "k")
	})
}

func TestRowsLeftOpenAreAnErrorAndLeakNothing(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	_, err := txn.Run(t.Context(), s.Pool, request("k"), func(ctx context.Context, tx pgx.Tx) (int64, error) {
		_, err := order("a")(ctx, tx)
		require.NoError(t, err)
		rows, err := tx.Query(ctx, "SELECT generate_series(1, 100000)")
		require.NoError(t, err)
		require.True(t, rows.Next())
		return 0, nil
	})
	require.Error(t, err)
	s.requireIdle(s.Pool)
	s.requireNothing()
	requireFreshNow(t, s, s.Pool, "k")
}

func TestContextCancelledInTheFunction(t *testing.T) {
	t.Parallel()
	for _, swallow := range []bool{false, true} {
		t.Run(fmt.Sprint("swallowed ", swallow), func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			ctx, cancel := context.WithCancel(t.Context())
			_, err := txn.Run(ctx, s.Pool, request("k"), func(ctx context.Context, tx pgx.Tx) (int64, error) {
				id, err := order("a")(ctx, tx)
				require.NoError(t, err)
				sleeping := async(func() error { _, err := tx.Exec(ctx, "SELECT pg_sleep(60)"); return err })
				eventually(t, func() bool {
					return s.count("pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()") == 1
				}, "nobody sleeps")
				cancel()
				err = receive(t, sleeping)
				require.ErrorIs(t, err, context.Canceled)
				if swallow {
					err = nil
				}
				return id, err
			})
			require.Error(t, err)
			if !swallow {
				require.ErrorIs(t, err, context.Canceled)
			}
			s.requireIdle(s.Pool)
			s.requireNothing()
			requireFreshNow(t, s, s.Pool, "k")
		})
	}
}

func TestCase24CompletionSurvivesTheContext(t *testing.T) {
	t.Parallel()
	eachHandle(t, func(t *testing.T, s *shop, db txn.Beginner) {
		for _, key := range []string{"first", "second"} { // through the dispatcher, then by the epoch
			ctx, cancel := context.WithCancel(t.Context())
			result, err := txn.Run(ctx, db, request(key), func(ctx context.Context, tx pgx.Tx) (int64, error) {
				id, err := order("a")(ctx, tx)
				cancel()
				return id, err
			})
			require.NoError(t, err)
			require.Equal(t, pgonce.Fresh, result.Outcome)
		}
		require.Equal(t, 2, s.orders())
		require.Equal(t, 2, s.keys())
	})
}

func TestAContextThatHasEndedDoesNothing(t *testing.T) {
	t.Parallel()
	eachHandle(t, func(t *testing.T, s *shop, db txn.Beginner) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := txn.Run(ctx, db, request("k"), never[int64](t))
		require.ErrorIs(t, err, context.Canceled)
		s.requireNothing()
		requireFreshNow(t, s, db, "k")
	})
}

func TestCommitTimeoutBoundsTheCompletion(t *testing.T) {
	t.Parallel()
	for name, ctx := range map[string]context.Context{"with a context that may end": t.Context(), "without": context.Background()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.exec(`CREATE FUNCTION public.linger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(2); RETURN NULL; END $$;
				CREATE CONSTRAINT TRIGGER linger AFTER INSERT ON public.orders DEFERRABLE INITIALLY DEFERRED
					FOR EACH ROW EXECUTE FUNCTION public.linger()`)
			req := request("k")
			req.CommitTimeout = 500 * time.Millisecond
			req.MaxRetries = -1
			_, err := txn.Run(ctx, s.Pool, req, order("a"))
			require.ErrorIs(t, err, pgonce.ErrOutcomeUnknown)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
	}
}
