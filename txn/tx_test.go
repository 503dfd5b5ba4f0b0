package txn_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/internal/pgbouncer"
	"github.com/pgonce/pgonce/txn"
)

// eachTx runs a test in a transaction of pgx's own and in the one that Run gives a function: both must behave alike. The
// connection knows the scope's epoch.
func eachTx(t *testing.T, test func(t *testing.T, s *shop, tx pgx.Tx)) {
	t.Helper()
	all := newShop(t)
	t.Run("pgx", func(t *testing.T) {
		s := all.again(t)
		require.NoError(t, pgx.BeginFunc(t.Context(), s.conn(), func(tx pgx.Tx) error { test(t, s, tx); return nil }))
	})
	t.Run("Run", func(t *testing.T) {
		s := all.again(t)
		conn := s.conn()
		warm(t, conn)
		_, err := txn.Run(t.Context(), conn, request("k"), func(ctx context.Context, tx pgx.Tx) (int, error) {
			require.NoError(t, ctx.Err())
			test(t, s, tx)
			return 0, nil
		})
		require.NoError(t, err)
	})
}

// refs are the refs of the orders that tx sees, in the order of their ids.
func refs(t *testing.T, tx pgx.Tx) []string {
	t.Helper()
	rows, err := tx.Query(t.Context(), "SELECT ref FROM public.orders ORDER BY id")
	require.NoError(t, err)
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return found
}

func add(t *testing.T, tx pgx.Tx, ref string) {
	t.Helper()
	tag, err := tx.Exec(t.Context(), "INSERT INTO public.orders (ref) VALUES ($1)", ref)
	require.NoError(t, err)
	require.Equal(t, "INSERT 0 1", tag.String())
}

func TestTxStatements(t *testing.T) {
	t.Parallel()
	eachTx(t, func(t *testing.T, s *shop, tx pgx.Tx) {
		ctx := t.Context()
		add(t, tx, "a")
		require.Equal(t, []string{"a"}, refs(t, tx))
		require.Zero(t, s.orders(), "seen outside")

		var n int
		require.NoError(t, tx.QueryRow(ctx, "SELECT $1::int + 1", 1).Scan(&n))
		require.Equal(t, 2, n)
		require.ErrorIs(t, tx.QueryRow(ctx, "SELECT 1 WHERE false").Scan(&n), pgx.ErrNoRows)

		copied, err := tx.CopyFrom(ctx, pgx.Identifier{"public", "orders"}, []string{"ref"}, pgx.CopyFromRows([][]any{{"b"}, {"c"}}))
		require.NoError(t, err)
		require.Equal(t, int64(2), copied)

		batch := &pgx.Batch{}
		batch.Queue("INSERT INTO public.orders (ref) VALUES ($1)", "d")
		batch.Queue("SELECT count(*) FROM public.orders").QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
		require.NoError(t, tx.SendBatch(ctx, batch).Close())
		require.Equal(t, 4, n)
		require.Equal(t, []string{"a", "b", "c", "d"}, refs(t, tx))

		require.NotNil(t, tx.Conn())
		require.Equal(t, byte('T'), tx.Conn().PgConn().TxStatus())
	})
}

func TestTxPrepares(t *testing.T) {
	t.Parallel()
	pgbouncer.NeedsSession(t, "a prepared statement")
	eachTx(t, func(t *testing.T, _ *shop, tx pgx.Tx) {
		description, err := tx.Prepare(t.Context(), "add", "INSERT INTO public.orders (ref) VALUES ($1)")
		require.NoError(t, err)
		require.Len(t, description.ParamOIDs, 1)
		_, err = tx.Exec(t.Context(), "add", "a")
		require.NoError(t, err)
		require.Equal(t, []string{"a"}, refs(t, tx))
	})
}

func TestTxRefusesABatchThatBegins(t *testing.T) {
	t.Parallel()
	eachTx(t, func(t *testing.T, _ *shop, tx pgx.Tx) {
		batch := &pgx.Batch{}
		batch.BeginTx(pgx.TxOptions{})
		batch.Queue("SELECT 1")
		require.Error(t, tx.SendBatch(t.Context(), batch).Close())
		add(t, tx, "still usable")
	})
}

func TestTxLargeObjects(t *testing.T) {
	t.Parallel()
	eachTx(t, func(t *testing.T, _ *shop, tx pgx.Tx) {
		ctx := t.Context()
		objects := tx.LargeObjects()
		oid, err := objects.Create(ctx, 0)
		require.NoError(t, err)
		object, err := objects.Open(ctx, oid, pgx.LargeObjectModeRead|pgx.LargeObjectModeWrite)
		require.NoError(t, err)
		_, err = object.Write([]byte("an invoice"))
		require.NoError(t, err)
		_, err = object.Seek(3, io.SeekStart)
		require.NoError(t, err)
		rest, err := io.ReadAll(object)
		require.NoError(t, err)
		require.Equal(t, "invoice", string(rest))
		require.NoError(t, object.Close())
		require.NoError(t, objects.Unlink(ctx, oid))
	})
}

func TestTxSavepoints(t *testing.T) {
	t.Parallel()
	eachTx(t, func(t *testing.T, _ *shop, tx pgx.Tx) {
		ctx := t.Context()
		begin := func(parent pgx.Tx) pgx.Tx {
			t.Helper()
			nested, err := parent.Begin(ctx)
			require.NoError(t, err)
			return nested
		}
		a := begin(tx)
		add(t, a, "a")
		require.NoError(t, a.Commit(ctx))

		b := begin(tx)
		add(t, b, "b")
		_, err := b.Exec(ctx, "SELECT 1/0")
		require.Error(t, err)
		require.NoError(t, b.Rollback(ctx), "which mends the transaction")
		require.Equal(t, []string{"a"}, refs(t, tx))

		c := begin(tx)
		add(t, c, "c")
		d := begin(c)
		add(t, d, "d")
		require.NoError(t, d.Rollback(ctx))
		e := begin(c)
		add(t, e, "e")
		require.NoError(t, e.Commit(ctx))
		require.Equal(t, []string{"a", "c", "e"}, refs(t, tx))
		require.NoError(t, c.Rollback(ctx))
		require.Equal(t, []string{"a"}, refs(t, tx))

		require.NoError(t, pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { add(t, tx, "f"); return nil }))
		require.ErrorIs(t, pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { add(t, tx, "g"); return errBusiness }), errBusiness)
		require.Equal(t, []string{"a", "f"}, refs(t, tx))
	})
}

func TestTxOverlappingSavepoints(t *testing.T) {
	t.Parallel()
	eachTx(t, func(t *testing.T, _ *shop, tx pgx.Tx) {
		ctx := t.Context()
		first, err := tx.Begin(ctx)
		require.NoError(t, err)
		add(t, first, "in the first")
		second, err := tx.Begin(ctx) // a brother, inside the first for PostgreSQL
		require.NoError(t, err)
		add(t, second, "in the second")
		require.NoError(t, second.Rollback(ctx))
		require.Equal(t, []string{"in the first"}, refs(t, tx))
		require.NoError(t, first.Rollback(ctx))
		require.Empty(t, refs(t, tx))
	})
}

// requireClosed says that a transaction answers everything with ErrTxClosed.
func requireClosed(t *testing.T, tx pgx.Tx) {
	t.Helper()
	ctx := context.Background()
	check := func(call string, err error) {
		t.Helper()
		require.ErrorIs(t, err, pgx.ErrTxClosed, call)
	}
	_, err := tx.Begin(ctx)
	check("Begin", err)
	check("Commit", tx.Commit(ctx))
	check("Rollback", tx.Rollback(ctx))
	_, err = tx.Exec(ctx, "SELECT 1")
	check("Exec", err)
	_, err = tx.Prepare(ctx, "p", "SELECT 1")
	check("Prepare", err)
	_, err = tx.CopyFrom(ctx, pgx.Identifier{"public", "orders"}, []string{"ref"}, pgx.CopyFromRows(nil))
	check("CopyFrom", err)

	check("QueryRow", tx.QueryRow(ctx, "SELECT 1").Scan(new(int)))
	rows, err := tx.Query(ctx, "SELECT 1")
	check("Query", err)
	_, err = pgx.CollectRows(rows, pgx.RowTo[int])
	check("CollectRows", err)

	batch := &pgx.Batch{}
	batch.Queue("SELECT 1")
	results := tx.SendBatch(ctx, batch)
	require.NotPanics(t, func() {
		_, err = results.Exec()
		check("BatchResults.Exec", err)
		_, err = results.Query()
		check("BatchResults.Query", err)
		check("BatchResults.QueryRow", results.QueryRow().Scan(new(int)))
		check("BatchResults.Close", results.Close())
	})

	objects := tx.LargeObjects()
	require.NotPanics(t, func() {
		_, err = objects.Create(ctx, 0)
		check("LargeObjects.Create", err)
	})
}

func TestAClosedTxAnswersWithErrTxClosed(t *testing.T) {
	t.Parallel()
	t.Run("savepoint", func(t *testing.T) {
		t.Parallel()
		eachTx(t, func(t *testing.T, _ *shop, tx pgx.Tx) {
			for _, end := range []func(pgx.Tx) error{
				func(tx pgx.Tx) error { return tx.Commit(t.Context()) },
				func(tx pgx.Tx) error { return tx.Rollback(t.Context()) },
			} {
				nested, err := tx.Begin(t.Context())
				require.NoError(t, err)
				require.NoError(t, end(nested))
				requireClosed(t, nested)
			}
		})
	})
	t.Run("after Rollback", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		_, err := txn.Run(t.Context(), s.Pool, request("k"), func(ctx context.Context, tx pgx.Tx) (int, error) {
			require.NoError(t, tx.Rollback(ctx))
			requireClosed(t, tx)
			return 0, errBusiness
		})
		require.ErrorIs(t, err, errBusiness)
	})
	for _, warmed := range []bool{false, true} {
		t.Run(fmt.Sprint("after Run, warmed ", warmed), func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			conn := s.conn()
			if warmed {
				warm(t, conn)
			}
			var kept, nested, deeper pgx.Tx
			var objects pgx.LargeObjects
			_, err := txn.Run(t.Context(), conn, request("k"), func(ctx context.Context, tx pgx.Tx) (_ int, err error) {
				kept = tx
				objects = tx.LargeObjects()
				if nested, err = tx.Begin(ctx); err == nil {
					deeper, err = nested.Begin(ctx)
				}
				return 0, err
			})
			require.NoError(t, err)
			requireClosed(t, kept)
			for _, tx := range []pgx.Tx{nested, deeper} { // left open, and closed with the transaction
				_, err = tx.Exec(t.Context(), "SELECT 1")
				require.ErrorIs(t, err, pgx.ErrTxClosed)
				_, err = tx.Begin(t.Context())
				require.ErrorIs(t, err, pgx.ErrTxClosed)
			}
			_, err = objects.Create(t.Context(), 0)
			require.ErrorIs(t, err, pgx.ErrTxClosed)
		})
	}
}

func TestAFailedTxRefusesStatements(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	_, err := txn.Run(t.Context(), s.Pool, request("k"), func(ctx context.Context, tx pgx.Tx) (int, error) {
		_, err := tx.Exec(ctx, "SELECT 1/0")
		require.Error(t, err)
		_, err = tx.Exec(ctx, "SELECT 1")
		var pgErr *pgconn.PgError
		require.True(t, errors.As(err, &pgErr))
		require.Equal(t, "25P02", pgErr.Code)
		_, err = tx.Begin(ctx)
		require.Error(t, err)
		return 0, err
	})
	require.Error(t, err)
	s.requireNothing()
}
