package txn_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/txn"
)

func openSQL(t testing.TB, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func orderSQL(ref string) func(context.Context, *sql.Tx) (int64, error) {
	return func(ctx context.Context, tx *sql.Tx) (id int64, err error) {
		err = tx.QueryRowContext(ctx, "INSERT INTO public.orders (ref) VALUES ($1) RETURNING id", ref).Scan(&id)
		return id, err
	}
}

func neverSQL(t testing.TB) func(context.Context, *sql.Tx) (int64, error) {
	return func(context.Context, *sql.Tx) (int64, error) {
		t.Error("the function was called")
		return 0, nil
	}
}

// requireIdleSQL says that no connection of the pool is in use, or in a transaction.
func (s *shop) requireIdleSQL(db *sql.DB) {
	s.t.Helper()
	require.Zero(s.t, db.Stats().InUse)
	eventually(s.t, func() bool {
		return s.count("pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'") == 0
	}, "a transaction was left open")
}

func TestRunSQLDoesOnceAndReplays(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	db := openSQL(t, s.URL)
	first, err := txn.RunSQL(t.Context(), db, request("k"), orderSQL("a"))
	require.NoError(t, err)
	require.Equal(t, txn.Result[int64]{Value: 1, Outcome: pgonce.Fresh, Attempt: 1}, first)
	again, err := txn.RunSQL(t.Context(), db, request("k"), neverSQL(t))
	require.NoError(t, err)
	require.Equal(t, pgonce.Replay, again.Outcome)
	require.Equal(t, int64(1), again.Value)

	// And it is the same key for Run.
	again, err = txn.Run(t.Context(), s.Pool, request("k"), never[int64](t))
	require.NoError(t, err)
	require.Equal(t, pgonce.Replay, again.Outcome)
	s.requireOnce()
	s.requireIdleSQL(db)
}

func TestConsumeSQL(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	db := openSQL(t, s.URL)
	for _, want := range []pgonce.Outcome{pgonce.Fresh, pgonce.Replay} {
		outcome, err := txn.ConsumeSQL(t.Context(), db, request("k"), func(ctx context.Context, tx *sql.Tx) error {
			_, err := orderSQL("a")(ctx, tx)
			return err
		})
		require.NoError(t, err)
		require.Equal(t, want, outcome)
	}
	_, err := txn.ConsumeSQL(t.Context(), db, request("other"), func(context.Context, *sql.Tx) error { return errBusiness })
	require.Equal(t, errBusiness, err)
	s.requireOnce()
	s.requireIdleSQL(db)
}

func TestRunSQLOutcomesAreErrors(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	db := openSQL(t, s.URL)
	req := request("k")
	req.Fingerprint = []byte{1}
	release := s.holding(req)
	strict := req
	strict.Strict = true
	_, err := txn.RunSQL(t.Context(), db, strict, neverSQL(t))
	require.ErrorIs(t, err, pgonce.ErrInProgress)
	require.NoError(t, release())
	req.Fingerprint = []byte{2}
	_, err = txn.RunSQL(t.Context(), db, req, neverSQL(t))
	require.ErrorIs(t, err, pgonce.ErrMismatch)
	s.requireOnce()
	s.requireIdleSQL(db)
}

func TestRunSQLErrorsAndPanicsLeaveNoTrace(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	db := openSQL(t, s.URL)
	for name, end := range map[string]func(tx *sql.Tx) error{
		"error":               func(*sql.Tx) error { return errBusiness },
		"Rollback":            func(tx *sql.Tx) error { return tx.Rollback() },
		"ROLLBACK":            func(tx *sql.Tx) error { _, err := tx.Exec("ROLLBACK"); return err },
		"swallowed SQL error": func(tx *sql.Tx) error { _, _ = tx.Exec("SELECT 1/0"); return nil },
	} {
		_, err := txn.RunSQL(t.Context(), db, request("k"), func(ctx context.Context, tx *sql.Tx) (int64, error) {
			id, err := orderSQL("a")(ctx, tx)
			require.NoError(t, err)
			return id, end(tx)
		})
		require.Error(t, err, name)
		s.requireNothing()
	}
	require.PanicsWithValue(t, "bug", func() {
		_, _ = txn.RunSQL(t.Context(), db, request("k"), func(ctx context.Context, tx *sql.Tx) (int64, error) {
			_, err := orderSQL("a")(ctx, tx)
			require.NoError(t, err)
			panic("bug")
		})
	})
	s.requireNothing()
	for name, end := range map[string]func(tx *sql.Tx) error{
		"Commit": func(tx *sql.Tx) error { return tx.Commit() },
		"COMMIT": func(tx *sql.Tx) error { _, err := tx.Exec("COMMIT"); return err },
	} {
		_, err := txn.RunSQL(t.Context(), db, request("k"), func(_ context.Context, tx *sql.Tx) (int64, error) { return 0, end(tx) })
		require.Error(t, err, name)
		s.requireNothing()
	}
	s.requireIdleSQL(db)
	_, err := txn.RunSQL(t.Context(), db, request("k"), orderSQL("a"))
	require.NoError(t, err)
	s.requireOnce()
}

func TestRunSQLFinalStoresARefusal(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	db := openSQL(t, s.URL)
	for _, replayed := range []bool{false, true} {
		_, err := txn.RunSQL(t.Context(), db, request("k"), func(ctx context.Context, tx *sql.Tx) (int64, error) {
			_, err := orderSQL("a")(ctx, tx)
			require.NoError(t, err)
			return 0, txn.Final(errBusiness)
		})
		var failed *pgonce.FailedError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, replayed, failed.Replayed)
		require.Equal(t, !replayed, errors.Is(err, errBusiness))
	}
	require.Zero(t, s.orders())
	require.Equal(t, 1, s.keys())
	s.requireIdleSQL(db)
}

func TestRunSQLIsolationLevels(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	db := openSQL(t, s.URL)
	for _, level := range []pgx.TxIsoLevel{"", pgx.ReadUncommitted, pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		req := request("level " + string(level))
		req.TxOptions.IsoLevel = level
		result, err := txn.RunSQL(t.Context(), db, req, func(ctx context.Context, tx *sql.Tx) (v string, err error) {
			err = tx.QueryRowContext(ctx, "SHOW transaction_isolation").Scan(&v)
			return v, err
		})
		require.NoError(t, err)
		want := string(level)
		if want == "" {
			want = "read committed"
		}
		require.Equal(t, want, result.Value)
	}
	for _, options := range []pgx.TxOptions{{IsoLevel: "chaos"}, {AccessMode: pgx.ReadWrite}, {DeferrableMode: pgx.Deferrable}} {
		req := request("k")
		req.TxOptions = options
		_, err := txn.RunSQL(t.Context(), db, req, neverSQL(t))
		require.Equal(t, pgonce.CodeInvalidArgument, pgonce.Code(err))
	}
	s.requireIdleSQL(db)
}

func TestRunSQLRetriesConflicts(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	db := openSQL(t, s.URL)
	s.exec("CREATE TABLE public.stock (n int); INSERT INTO public.stock VALUES (10)")
	req := request("k")
	req.TxOptions.IsoLevel = pgx.RepeatableRead
	calls := 0
	result, err := txn.RunSQL(t.Context(), db, req, func(ctx context.Context, tx *sql.Tx) (int, error) {
		calls++
		if calls == 1 {
			s.exec("UPDATE public.stock SET n = n - 1")
		}
		_, err := tx.ExecContext(ctx, "UPDATE public.stock SET n = n - 1")
		return calls, err
	})
	require.NoError(t, err)
	require.Equal(t, 2, result.Value)
	require.Equal(t, 1, s.count("public.stock WHERE n = 8"))

	s.conflictAtCommit("call 1", "40001")
	calls = 0
	_, err = txn.RunSQL(t.Context(), db, request("at commit"), func(ctx context.Context, tx *sql.Tx) (int64, error) {
		calls++
		return orderSQL(map[int]string{1: "call 1", 2: "call 2"}[calls])(ctx, tx)
	})
	require.NoError(t, err)
	require.Equal(t, 2, calls)
	require.Equal(t, 1, s.orders())
	s.requireIdleSQL(db)
}

func TestCase24RunSQLCompletionSurvivesTheContext(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	db := openSQL(t, s.URL)
	ctx, cancel := context.WithCancel(t.Context())
	result, err := txn.RunSQL(ctx, db, request("k"), func(ctx context.Context, tx *sql.Tx) (int64, error) {
		id, err := orderSQL("a")(ctx, tx)
		cancel()
		return id, err
	})
	require.NoError(t, err)
	require.Equal(t, pgonce.Fresh, result.Outcome)
	s.requireOnce()

	_, err = txn.RunSQL(ctx, db, request("other"), neverSQL(t))
	require.ErrorIs(t, err, context.Canceled)
	s.requireIdleSQL(db)
}

func TestRunSQLEndsWithTheContextWhileTheFunctionWorks(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	db := openSQL(t, s.URL)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := txn.RunSQL(ctx, db, request("k"), func(ctx context.Context, tx *sql.Tx) (int64, error) {
		id, err := orderSQL("a")(ctx, tx)
		if err != nil {
			return id, err
		}
		_, err = tx.ExecContext(ctx, "SELECT pg_sleep(60)")
		return id, err
	})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	s.requireNothing()
	s.requireIdleSQL(db)
}

func TestRunSQLFromManySides(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	db := openSQL(t, s.URL)
	db.SetMaxOpenConns(8)
	together(20, func(int) {
		result, err := txn.RunSQL(context.Background(), db, request("k"), orderSQL("a"))
		if err != nil || result.Value != 1 {
			t.Errorf("%+v %v", result, err)
		}
	})
	s.requireOnce()
	s.requireIdleSQL(db)
}

// otherDriver is a driver that is not pgx's.
type otherDriver struct{ driver.Conn }

func (otherDriver) Open(string) (driver.Conn, error)             { return otherDriver{}, nil }
func (otherDriver) Connect(context.Context) (driver.Conn, error) { return otherDriver{}, nil }
func (otherDriver) Driver() driver.Driver                        { return otherDriver{} }
func (otherDriver) Close() error                                 { return nil }

func TestRunSQLRefusesAnotherDriver(t *testing.T) {
	t.Parallel()
	db := sql.OpenDB(otherDriver{})
	defer db.Close()
	_, err := txn.RunSQL(t.Context(), db, request("k"), neverSQL(t))
	require.ErrorContains(t, err, "pgx/v5/stdlib")
	require.ErrorContains(t, err, "txn_test.otherDriver")
	require.Equal(t, pgonce.CodeInvalidArgument, pgonce.Code(err))
	require.Zero(t, db.Stats().InUse)
}
