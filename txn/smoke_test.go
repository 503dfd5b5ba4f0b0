package txn

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

func TestSmoke(t *testing.T) {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://postgres@127.0.0.1:5499/p1")
	require.NoError(t, err)
	defer pool.Close()
	_, err = pool.Exec(ctx, `create table if not exists biz(id bigint generated always as identity primary key, order_ref text)`)
	require.NoError(t, err)
	pool.Exec(ctx, `select once.create_scope('smoke','7 days','1 day')`)
	_, err = pool.Exec(ctx, `delete from once_data.smoke_g1`)
	for i := range 5 {
		r, err := Run(ctx, pool, Request{Scope: "smoke", Key: "a" + string(rune('a'+i/2))}, func(ctx context.Context, tx pgx.Tx) (int64, error) {
			var id int64
			return id, tx.QueryRow(ctx, "insert into biz(order_ref) values ('x') returning id").Scan(&id)
		})
		require.NoError(t, err)
		t.Log(r)
	}
}
