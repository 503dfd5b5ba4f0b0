package txn_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/internal/pgbouncer"
	"github.com/pgonce/pgonce/txn"
)

// Before 1.21 PgBouncer knows nothing of prepared statements, so only the modes without them can be promised.
func TestCase08PgBouncerInTransactionMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			configure := func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode; c.MaxConns = 8 }
			all := newShop(t)
			url := pgbouncer.Start(t, all.direct, 2) // two server connections, so that they often change hands
			t.Run("core", func(t *testing.T) {
				s := all.again(t)
				pool := openPool(t, url, configure)
				requireCore(t, s, runnerOf(pool))
				s.requireIdle(pool)
			})
			t.Run("core over database/sql", func(t *testing.T) {
				s := all.again(t)
				db := stdlib.OpenDBFromPool(openPool(t, url, configure))
				defer func() { _ = db.Close() }()
				requireCore(t, s, runnerOfSQL(db))
			})
			t.Run("many clients", func(t *testing.T) {
				s := all.again(t)
				pool := openPool(t, url, configure)
				together(40, func(i int) {
					ref := fmt.Sprint("k", i%4)
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					defer cancel()
					result, err := txn.Run(ctx, pool, request(ref), func(ctx context.Context, tx pgx.Tx) (string, error) {
						_, err := order(ref)(ctx, tx)
						return ref, err
					})
					if err != nil || result.Value != ref {
						t.Errorf("%+v: %v", result, err)
					}
				})
				require.Equal(t, 4, s.orders())
				require.Equal(t, 4, s.keys())
				s.requireIdle(pool)
			})
		})
	}
}
