package txn_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/txn"
)

// eachOuter runs a test inside a transaction of Run's, and inside one that pgx began. The test's error ends it.
func eachOuter(t *testing.T, test func(t *testing.T, s *shop, outer func(func(ctx context.Context, tx pgx.Tx) error) error)) {
	t.Helper()
	all := newShop(t)
	t.Run("of Run", func(t *testing.T) {
		s := all.again(t)
		test(t, s, func(f func(context.Context, pgx.Tx) error) error {
			_, err := txn.Consume(t.Context(), s.Pool, request("outer"), f)
			if err == nil { // not counted as one of the test's
				s.exec("DELETE FROM once_data.orders_g1 WHERE key = 'outer'")
			}
			return err
		})
		s.requireIdle(s.Pool)
	})
	t.Run("of pgx", func(t *testing.T) {
		s := all.again(t)
		test(t, s, func(f func(context.Context, pgx.Tx) error) error {
			return pgx.BeginFunc(t.Context(), s.Pool, func(tx pgx.Tx) error { return f(t.Context(), tx) })
		})
		s.requireIdle(s.Pool)
	})
}

func TestNestedOperationsCommitTogether(t *testing.T) {
	t.Parallel()
	eachOuter(t, func(t *testing.T, s *shop, outer func(func(context.Context, pgx.Tx) error) error) {
		for _, want := range []pgonce.Outcome{pgonce.Fresh, pgonce.Replay} {
			require.NoError(t, outer(func(ctx context.Context, tx pgx.Tx) error {
				for i, key := range []string{"a", "b"} {
					result, err := txn.Run(ctx, tx, request(key), order(key))
					require.NoError(t, err)
					require.Equal(t, want, result.Outcome)
					require.Equal(t, int64(i+1), result.Value)
				}
				return nil
			}))
		}
		require.Equal(t, 2, s.orders())
		require.Equal(t, 2, s.keys())
	})
}

func TestNestedOperationsAreUndoneTogether(t *testing.T) {
	t.Parallel()
	eachOuter(t, func(t *testing.T, s *shop, outer func(func(context.Context, pgx.Tx) error) error) {
		require.ErrorIs(t, outer(func(ctx context.Context, tx pgx.Tx) error {
			_, err := txn.Run(ctx, tx, request("a"), order("a"))
			require.NoError(t, err)
			_, err = txn.Run(ctx, tx, request("refused"), func(context.Context, pgx.Tx) (int64, error) { return 0, txn.Final(errBusiness) })
			require.ErrorIs(t, err, pgonce.ErrFailed)
			return errBusiness
		}), errBusiness)
		eventually(t, func() bool { return s.count("pg_locks WHERE locktype = 'advisory'") == 0 }, "the rollback is not over")
		s.requireNothing()
		result, err := txn.Run(t.Context(), s.Pool, request("a"), order("a"))
		require.NoError(t, err)
		require.Equal(t, pgonce.Fresh, result.Outcome)
	})
}

func TestANestedFailureUndoesItselfOnly(t *testing.T) {
	t.Parallel()
	eachOuter(t, func(t *testing.T, s *shop, outer func(func(context.Context, pgx.Tx) error) error) {
		require.NoError(t, outer(func(ctx context.Context, tx pgx.Tx) error {
			_, err := order("outer")(ctx, tx)
			require.NoError(t, err)
			for name, fail := range map[string]func(context.Context, pgx.Tx) error{
				"error":     func(context.Context, pgx.Tx) error { return errBusiness },
				"SQL error": func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, "SELECT 1/0"); return err },
				"swallowed": func(ctx context.Context, tx pgx.Tx) error { _, _ = tx.Exec(ctx, "SELECT 1/0"); return nil },
			} {
				_, err = txn.Run(ctx, tx, request("inner"), func(ctx context.Context, tx pgx.Tx) (int64, error) {
					id, err := order("inner")(ctx, tx)
					require.NoError(t, err)
					return id, fail(ctx, tx)
				})
				require.Error(t, err, name)
			}
			require.PanicsWithValue(t, "bug", func() {
				_, _ = txn.Run(ctx, tx, request("inner"), func(ctx context.Context, tx pgx.Tx) (int64, error) {
					_, err := order("inner")(ctx, tx)
					require.NoError(t, err)
					panic("bug")
				})
			})
			// The key is free again, in this transaction too.
			result, err := txn.Run(ctx, tx, request("inner"), order("at last"))
			require.NoError(t, err)
			require.Equal(t, pgonce.Fresh, result.Outcome)
			return nil
		}))
		require.Zero(t, s.count("public.orders WHERE ref = 'inner'"))
		require.Equal(t, 2, s.orders())
		require.Equal(t, 1, s.keys())
	})
}

func TestANestedRefusalIsStoredWithTheOuter(t *testing.T) {
	t.Parallel()
	eachOuter(t, func(t *testing.T, s *shop, outer func(func(context.Context, pgx.Tx) error) error) {
		require.NoError(t, outer(func(ctx context.Context, tx pgx.Tx) error {
			for _, replayed := range []bool{false, true} {
				_, err := txn.Run(ctx, tx, request("k"), func(ctx context.Context, tx pgx.Tx) (int64, error) {
					_, err := order("undone")(ctx, tx)
					require.NoError(t, err)
					return 0, txn.Final(errBusiness)
				})
				var failed *pgonce.FailedError
				require.ErrorAs(t, err, &failed)
				require.Equal(t, replayed, failed.Replayed)
			}
			_, err := order("outer")(ctx, tx)
			return err
		}))
		s.requireOnce()
		_, err := txn.Run(t.Context(), s.Pool, request("k"), never[int64](t))
		require.ErrorIs(t, err, pgonce.ErrFailed)
	})
}

// An inner refusal that the outer function passes on is an error like any other to the outer operation.
func TestANestedRefusalIsNotTheOuters(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	_, err := txn.Run(t.Context(), s.Pool, request("outer"), func(ctx context.Context, tx pgx.Tx) (int64, error) {
		return txn2(txn.Run(ctx, tx, request("inner"), func(context.Context, pgx.Tx) (int64, error) {
			return 0, txn.Final(errBusiness)
		}))
	})
	require.ErrorIs(t, err, pgonce.ErrFailed)
	s.requireIdle(s.Pool)
	s.requireNothing()
}

func txn2(result txn.Result[int64], err error) (int64, error) { return result.Value, err }

func TestTheSameKeyInsideItself(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		req := request(string(level))
		req.TxOptions.IsoLevel = level
		result, err := txn.Run(t.Context(), s.Pool, req, func(ctx context.Context, tx pgx.Tx) (int64, error) {
			inner := req
			inner.TxOptions = pgx.TxOptions{}
			_, err := txn.Run(ctx, tx, inner, never[int64](t))
			if level == pgx.ReadCommitted {
				require.Equal(t, pgonce.CodeNested, pgonce.Code(err))
			} else {
				require.Error(t, err)
			}
			return order("once")(ctx, tx)
		})
		require.NoError(t, err)
		require.Equal(t, pgonce.Fresh, result.Outcome)
	}
	require.Equal(t, 3, s.orders())
	require.Equal(t, 3, s.keys())
}

// Another connection waits for the outer transaction, which waits for the function: the context ends it.
func TestTheSameKeyInsideItselfOnAnotherConnectionIsInProgress(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	_, err := txn.Run(t.Context(), s.Pool, request("k"), func(ctx context.Context, tx pgx.Tx) (int64, error) {
		req := request("k")
		req.Wait = 1
		_, err := txn.Run(ctx, s.Pool, req, never[int64](t))
		require.ErrorIs(t, err, pgonce.ErrInProgress)
		return order("once")(ctx, tx)
	})
	require.NoError(t, err)
	s.requireOnce()
}

func TestDeepNesting(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	var nest func(ctx context.Context, db txn.Beginner, depth int) error
	nest = func(ctx context.Context, db txn.Beginner, depth int) error {
		if depth == 5 {
			return errBusiness
		}
		_, err := txn.Consume(ctx, db, request(string(rune('a'+depth))), func(ctx context.Context, tx pgx.Tx) error {
			if _, err := order(string(rune('a'+depth)))(ctx, tx); err != nil {
				return err
			}
			err := nest(ctx, tx, depth+1)
			if depth == 2 { // c stays, d and e, inside it, do not
				require.Equal(t, errBusiness, err)
				return nil
			}
			return err
		})
		return err
	}
	require.NoError(t, nest(t.Context(), s.Pool, 0))
	require.Equal(t, 3, s.count("public.orders WHERE ref IN ('a', 'b', 'c')"))
	require.Equal(t, 3, s.orders())
	require.Equal(t, 3, s.count("once_data.orders WHERE key IN ('a', 'b', 'c')"))
	require.Equal(t, 3, s.keys())
}

func TestANestedConflictIsTheOutersToRetry(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	outer, inner := 0, 0
	result, err := txn.Run(t.Context(), s.Pool, request("outer"), func(ctx context.Context, tx pgx.Tx) (int64, error) {
		outer++
		return txn2(txn.Run(ctx, tx, request("inner"), func(ctx context.Context, tx pgx.Tx) (int64, error) {
			inner++
			id, err := order("a")(ctx, tx)
			if inner == 1 {
				err = &pgconn.PgError{Code: "40001"}
			}
			return id, err
		}))
	})
	require.NoError(t, err)
	require.Equal(t, pgonce.Fresh, result.Outcome)
	require.Equal(t, 2, outer)
	require.Equal(t, 2, inner)
	require.Equal(t, 1, s.orders())
	require.Equal(t, 2, s.keys())
}

func TestNestedTxOptionsAreRefused(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	require.NoError(t, pgx.BeginFunc(t.Context(), s.Pool, func(tx pgx.Tx) error {
		req := request("k")
		req.TxOptions.IsoLevel = pgx.Serializable
		_, err := txn.Run(t.Context(), tx, req, never[int64](t))
		require.Equal(t, pgonce.CodeInvalidArgument, pgonce.Code(err))
		return nil
	}))
	s.requireNothing()
}

// A connection that is in a transaction is refused: Run's COMMIT would end what is not its own.
func TestAConnectionInATransactionIsRefused(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	conn := s.conn()
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = txn.Run(t.Context(), conn, request("k"), never[int64](t))
	require.ErrorContains(t, err, "pass its pgx.Tx")
	require.NoError(t, tx.Rollback(t.Context()))
	s.requireNothing()
}

// The function cannot commit the savepoint of a nested operation, or the transaction of a wrapped handle.
func TestAFunctionCannotCommit(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	commits := func(ctx context.Context, tx pgx.Tx) (int64, error) {
		if _, err := order("a")(ctx, tx); err != nil {
			return 0, err
		}
		return 0, tx.Commit(ctx)
	}
	_, err := txn.Run(t.Context(), struct{ txn.Beginner }{s.Pool}, request("k"), commits)
	require.ErrorContains(t, err, "COMMIT")
	require.NoError(t, pgx.BeginFunc(t.Context(), s.Pool, func(tx pgx.Tx) error {
		_, err := txn.Run(t.Context(), tx, request("k"), commits)
		require.ErrorContains(t, err, "COMMIT")
		return nil
	}))
	s.requireNothing()
}
