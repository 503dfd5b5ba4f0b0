package txn_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/internal/pgbouncer"
	"github.com/pgonce/pgonce/txn"
)

// runner is Run over some handle of a database; the function adds an order.
type runner func(ctx context.Context, req txn.Request, ref string, fail error) (txn.Result[int64], error)

func runnerOf(db txn.Beginner) runner {
	return func(ctx context.Context, req txn.Request, ref string, fail error) (txn.Result[int64], error) {
		return txn.Run(ctx, db, req, func(ctx context.Context, tx pgx.Tx) (int64, error) {
			id, err := order(ref)(ctx, tx)
			if err == nil {
				err = fail
			}
			return id, err
		})
	}
}

func runnerOfSQL(db *sql.DB) runner {
	return func(ctx context.Context, req txn.Request, ref string, fail error) (txn.Result[int64], error) {
		return txn.RunSQL(ctx, db, req, func(ctx context.Context, tx *sql.Tx) (int64, error) {
			id, err := orderSQL(ref)(ctx, tx)
			if err == nil {
				err = fail
			}
			return id, err
		})
	}
}

// requireCore is what must hold whatever lies between the caller and the server.
func requireCore(t *testing.T, s *shop, run runner) {
	t.Helper()
	ctx := t.Context()
	s.exec("SELECT once.alter_scope('orders', p_max_result_bytes => 1024)")
	for round := range 3 { // with an epoch that is learned, then known, then over
		if round == 2 {
			s.rotate(1)
		}
		for _, level := range []pgx.TxIsoLevel{"", pgx.RepeatableRead, pgx.Serializable} {
			req := txn.Request{
				Scope: "orders", Subject: `o'hara\ ☃`, Key: fmt.Sprintf("k'\\%d %s", round, level),
				Fingerprint: []byte{0, 1, 0xff, '\'', '\\'}, Meta: []byte(`{"note": "o'hara \\ ☃"}`), Wait: time.Minute,
			}
			req.TxOptions.IsoLevel = level
			_, err := run(ctx, req, "undone", errBusiness)
			require.ErrorIs(t, err, errBusiness)

			first, err := run(ctx, req, "once", nil)
			require.NoError(t, err)
			require.Equal(t, pgonce.Fresh, first.Outcome)
			again, err := run(ctx, req, "twice", nil)
			require.NoError(t, err)
			require.Equal(t, pgonce.Replay, again.Outcome)
			require.Equal(t, first.Value, again.Value)
			require.False(t, again.FinishedAt.IsZero())

			record, found, err := txn.Lookup(ctx, s.Pool, pgonce.Key{Scope: req.Scope, Subject: req.Subject, Key: req.Key})
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, req.Fingerprint, record.Fingerprint)
			require.JSONEq(t, string(req.Meta), string(record.Meta))
			require.Equal(t, fmt.Sprint(first.Value), string(record.Result))

			other := req
			other.Fingerprint = []byte{2}
			_, err = run(ctx, other, "mismatch", nil)
			require.ErrorIs(t, err, pgonce.ErrMismatch)

			refused := req
			refused.Key += " refused"
			_, err = run(ctx, refused, "refused", txn.Final(errors.New("it's refused")))
			require.ErrorIs(t, err, pgonce.ErrFailed)
			_, err = run(ctx, refused, "refused", nil)
			var failed *pgonce.FailedError
			require.ErrorAs(t, err, &failed)
			require.True(t, failed.Replayed)
			require.Equal(t, "it's refused", failed.Message)
		}
	}
	release := s.holding(request("held"))
	held := request("held")
	held.Strict = true
	_, err := run(ctx, held, "held", nil)
	require.ErrorIs(t, err, pgonce.ErrInProgress)
	held.Strict, held.Wait = false, 10*time.Millisecond
	_, err = run(ctx, held, "held", nil)
	require.ErrorIs(t, err, pgonce.ErrInProgress)
	require.NoError(t, release())

	require.Equal(t, 9, s.count("public.orders WHERE ref = 'once'"))
	require.Equal(t, 10, s.orders())
	require.Equal(t, 19, s.keys())
}

func TestEveryQueryExecMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			if mode != pgx.QueryExecModeExec && mode != pgx.QueryExecModeSimpleProtocol {
				pgbouncer.NeedsSession(t, "statements that one round trip prepares and another executes")
			}
			configure := func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode }
			all := newShop(t)
			t.Run("pool", func(t *testing.T) {
				s := all.again(t)
				pool := s.pool(configure)
				requireCore(t, s, runnerOf(pool))
				s.requireIdle(pool)
			})
			t.Run("database/sql", func(t *testing.T) {
				s := all.again(t)
				db := stdlib.OpenDBFromPool(s.pool(configure))
				defer func() { _ = db.Close() }()
				requireCore(t, s, runnerOfSQL(db))
				s.requireIdleSQL(db)
			})
		})
	}
}
