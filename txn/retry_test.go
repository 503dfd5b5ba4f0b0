package txn_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/txn"
)

// requireRetried runs fn, whose first call meets a conflict, and says that the second one counted.
func requireRetried(t *testing.T, s *shop, db txn.Beginner, level pgx.TxIsoLevel, fn func(ctx context.Context, tx pgx.Tx, call int) error) {
	t.Helper()
	req := request("k")
	req.TxOptions.IsoLevel = level
	calls := 0
	result, err := txn.Run(t.Context(), db, req, func(ctx context.Context, tx pgx.Tx) (int, error) {
		calls++
		if _, err := order(fmt.Sprint("call ", calls))(ctx, tx); err != nil {
			return 0, err
		}
		return calls, fn(ctx, tx, calls)
	})
	require.NoError(t, err)
	require.Equal(t, 2, calls)
	require.Equal(t, 2, result.Value)
	require.Equal(t, pgonce.Fresh, result.Outcome)
	require.Equal(t, 1, s.count("public.orders WHERE ref = 'call 2'"))
	s.requireOnce()
}

func TestAConcurrentUpdateIsRetried(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			eachRetryingHandle(t, func(t *testing.T, s *shop, db txn.Beginner) {
				s.exec("CREATE TABLE public.stock (n int); INSERT INTO public.stock VALUES (10)")
				requireRetried(t, s, db, level, func(ctx context.Context, tx pgx.Tx, call int) error {
					if call == 1 { // behind the back of the snapshot, which the claim has taken
						s.exec("UPDATE public.stock SET n = n - 1")
					}
					_, err := tx.Exec(ctx, "UPDATE public.stock SET n = n - 1")
					return err
				})
				require.Equal(t, 1, s.count("public.stock WHERE n = 8"))
			})
		})
	}
}

func TestAWriteSkewFoundAtTheEndIsRetried(t *testing.T) {
	t.Parallel()
	eachRetryingHandle(t, func(t *testing.T, s *shop, db txn.Beginner) {
		s.exec(`CREATE TABLE public.doctor (name text PRIMARY KEY, on_call bool); INSERT INTO public.doctor VALUES ('a', true), ('b', true)`)
		const leave = "UPDATE public.doctor SET on_call = false WHERE name = $1 AND (SELECT count(*) FROM public.doctor WHERE on_call) > 1"
		left := int64(0)
		requireRetried(t, s, db, pgx.Serializable, func(ctx context.Context, tx pgx.Tx, call int) error {
			tag, err := tx.Exec(ctx, leave, "a")
			left = tag.RowsAffected()
			if err == nil && call == 1 { // the other commits first, so that only the completion or COMMIT can fail
				other, err := s.Pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.Serializable})
				require.NoError(t, err)
				_, err = other.Exec(ctx, leave, "b")
				require.NoError(t, err)
				require.NoError(t, other.Commit(ctx))
			}
			return err
		})
		require.Zero(t, left, "the second call saw the other's change")
		require.Equal(t, 1, s.count("public.doctor WHERE on_call"))
	})
}

// conflictAtCommit makes COMMIT fail with the given SQLSTATE as long as the transaction has an order of this ref.
func (s *shop) conflictAtCommit(ref, code string) {
	s.exec(fmt.Sprintf(`CREATE FUNCTION public.conflict() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'conflict at commit' USING ERRCODE = '%s'; END $$;
		CREATE CONSTRAINT TRIGGER conflict AFTER INSERT ON public.orders DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW WHEN (NEW.ref = '%s') EXECUTE FUNCTION public.conflict()`, code, ref))
}

func TestAConflictAtCommitIsRetried(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"40001", "40P01"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			eachHandle(t, func(t *testing.T, s *shop, db txn.Beginner) {
				s.conflictAtCommit("call 1", code)
				requireRetried(t, s, db, "", func(context.Context, pgx.Tx, int) error { return nil })
			})
		})
	}
}

func TestADeadlockIsRetried(t *testing.T) {
	t.Parallel()
	eachRetryingHandle(t, func(t *testing.T, s *shop, db txn.Beginner) {
		s.exec("CREATE TABLE public.stock (id int PRIMARY KEY, n int); INSERT INTO public.stock VALUES (1, 10), (2, 10)")
		const update = "UPDATE public.stock SET n = n - 1 WHERE id = $1"
		// The other side waits first and never looks for deadlocks itself: the victim is ours.
		other := connect(t, s.AdminURL)
		_, err := other.Exec(t.Context(), "SET deadlock_timeout = '1h'")
		require.NoError(t, err)
		var finished <-chan error
		requireRetried(t, s, db, "", func(ctx context.Context, tx pgx.Tx, call int) error {
			_, err := tx.Exec(ctx, update, 1)
			require.NoError(t, err)
			if call == 1 {
				theirs, err := other.Begin(ctx)
				require.NoError(t, err)
				_, err = theirs.Exec(ctx, update, 2)
				require.NoError(t, err)
				finished = async(func() error {
					if _, err := theirs.Exec(context.Background(), update, 1); err != nil {
						return err
					}
					return theirs.Commit(context.Background())
				})
				s.awaitLock("transactionid")
			}
			_, err = tx.Exec(ctx, update, 2)
			if call == 1 {
				require.Equal(t, "40P01", pgonce.Code(err))
			}
			return err
		})
		require.NoError(t, receive(t, finished))
		require.Equal(t, 2, s.count("public.stock WHERE n = 8"))
	})
}

func TestRetriesAreBounded(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, c := range []struct{ retries, calls int }{{0, txn.DefaultMaxRetries + 1}, {2, 3}, {1, 2}, {-1, 1}} {
		req := request("k")
		req.MaxRetries = c.retries
		calls := 0
		_, err := txn.Run(t.Context(), s.Pool, req, func(ctx context.Context, tx pgx.Tx) (int64, error) {
			calls++
			id, err := order("a")(ctx, tx)
			require.NoError(t, err)
			return id, fmt.Errorf("call %d: %w", calls, &pgconn.PgError{Code: "40001"})
		})
		require.Equal(t, c.calls, calls)
		require.ErrorContains(t, err, fmt.Sprintf("call %d:", c.calls), "the last error is given")
		require.Equal(t, "40001", pgonce.Code(err))
		require.True(t, txn.Retryable(err))
		s.requireNothing()
	}
}

func TestRetriesEndWithTheContext(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	calls := 0
	_, err := txn.Run(ctx, s.Pool, request("k"), func(context.Context, pgx.Tx) (int64, error) {
		calls++
		if calls == 3 {
			cancel(errBusiness)
		}
		return 0, &pgconn.PgError{Code: "40001"}
	})
	require.Equal(t, 3, calls)
	require.ErrorIs(t, err, errBusiness, "why it was cancelled")
	require.Equal(t, "40001", pgonce.Code(err), "what was being retried")
	s.requireNothing()
}

func TestOtherErrorsAreNotRetried(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, want := range []error{
		&pgconn.PgError{Code: "23505"}, &pgconn.PgError{Code: "57014"}, &pgconn.PgError{Code: "ON001"},
		&pgconn.PgError{Code: "40002"}, context.DeadlineExceeded, errBusiness, pgonce.ErrInProgress,
	} {
		calls := 0
		_, err := txn.Run(t.Context(), s.Pool, request("k"), func(context.Context, pgx.Tx) (int64, error) {
			calls++
			return 0, want
		})
		require.Equal(t, want, err)
		require.Equal(t, 1, calls, want)
		require.False(t, txn.Retryable(err))
	}
	require.False(t, txn.Retryable(nil))
	for _, code := range []string{"40001", "40P01", pgonce.CodeUnroutable} {
		require.True(t, txn.Retryable(fmt.Errorf("x: %w", &pgconn.PgError{Code: code})))
	}
}

func TestRetriesPause(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	// Nine pauses have caps of 10, 20, 40 … 500, 500 ms: about a second in the mean, at least a tenth of it nearly always.
	started := time.Now()
	req := request("k")
	req.MaxRetries = 9
	_, err := txn.Run(t.Context(), s.Pool, req, func(context.Context, pgx.Tx) (int64, error) {
		return 0, &pgconn.PgError{Code: "40001"}
	})
	require.Error(t, err)
	require.Greater(t, time.Since(started), 100*time.Millisecond)
}

func TestAReplayAfterAnUndoneCallGivesOnlyTheStoredResult(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]func(ctx context.Context, s *shop) error{
		"a result that would merge": func(ctx context.Context, s *shop) error {
			_, err := txn.Run(ctx, s.Pool, request("k"), func(context.Context, pgx.Tx) (map[string]int, error) {
				return map[string]int{"theirs": 2}, nil
			})
			return err
		},
		"no result": func(ctx context.Context, s *shop) error {
			_, err := txn.Consume(ctx, s.Pool, request("k"), func(context.Context, pgx.Tx) error { return nil })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.conflictAtCommit("ours", "40001")
			var theirs <-chan error
			result, err := txn.Run(t.Context(), s.Pool, request("k"), func(ctx context.Context, tx pgx.Tx) (map[string]int, error) {
				// The other waits for the key, so it is next when this call is undone.
				theirs = async(func() error { return other(context.Background(), s) })
				s.awaitLock("advisory")
				_, err := order("ours")(ctx, tx)
				return map[string]int{"ours": 1}, err
			})
			require.NoError(t, receive(t, theirs))
			require.NoError(t, err)
			require.Equal(t, pgonce.Replay, result.Outcome)
			require.NotContains(t, result.Value, "ours")
			require.Zero(t, s.orders())
		})
	}
}

func TestTheErrorOfAnotherOperationIsNotTakenForOnesOwn(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	calls := 0
	inner := errors.Join(errBusiness, pgonce.ErrOutcomeUnknown)
	_, err := txn.Run(t.Context(), s.Pool, request("k"), func(context.Context, pgx.Tx) (int64, error) {
		calls++
		return 0, inner
	})
	require.Equal(t, inner, err)
	require.Equal(t, 1, calls)
	s.requireNothing()
}
