package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// threeTx is the pattern of three transactions: the claim commits as in_progress, the business commits, and the
// claim is marked as done with its result. The first and the last are single statements without BEGIN; the middle
// one stands for business of more than one statement, as in the other contenders. A crash between them leaves a
// claim that nobody finishes, which the pattern has to clean up and this benchmark does not charge for.
type threeTx struct{ orders, dedup string }

func (threeTx) Name() string { return "threetx" }

func (c threeTx) Setup(ctx context.Context, pool *pgxpool.Pool) error {
	if err := createOrders(ctx, pool, c.orders); err != nil {
		return err
	}
	_, err := pool.Exec(ctx, fmt.Sprintf(`CREATE TABLE %s (
		key         text PRIMARY KEY,
		fingerprint bytea NOT NULL,
		state       text NOT NULL DEFAULT 'in_progress',
		result      jsonb,
		created_at  timestamptz NOT NULL DEFAULT now()
	)`, c.dedup))
	return err
}

func (c threeTx) Op(ctx context.Context, pool *pgxpool.Pool, _ int) error {
	fresh, err := c.do(ctx, pool, newKey())
	if err == nil && !fresh {
		err = errors.New("a new key was taken for a duplicate")
	}
	return err
}

// do reports whether the key was new, in which case the business was done.
func (c threeTx) do(ctx context.Context, pool *pgxpool.Pool, key string) (bool, error) {
	tag, err := pool.Exec(ctx, "INSERT INTO "+c.dedup+" (key, fingerprint) VALUES ($1, $2) ON CONFLICT DO NOTHING",
		key, fingerprint)
	if err != nil {
		return false, err
	}
	if tag.RowsAffected() == 0 {
		return false, c.replay(ctx, pool, key)
	}

	id, err := c.business(ctx, pool, key)
	if err != nil {
		return false, err
	}

	tag, err = pool.Exec(ctx, "UPDATE "+c.dedup+" SET state = 'done', result = $2 WHERE key = $1 AND state = 'in_progress'",
		key, orderResult{ID: id})
	if err == nil && tag.RowsAffected() != 1 {
		err = errors.New("the claim was lost")
	}
	return true, err
}

func (c threeTx) business(ctx context.Context, pool *pgxpool.Pool, key string) (int64, error) {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback(ctx) //nolint:errcheck // a no-op after Commit

	id, err := insertOrder(ctx, tx, c.orders, key)
	if err != nil {
		return 0, err
	}
	return id, tx.Commit(ctx)
}

// replay reads the stored result of a key that was done before.
func (c threeTx) replay(ctx context.Context, pool *pgxpool.Pool, key string) error {
	var (
		state  string
		result orderResult
	)
	err := pool.QueryRow(ctx, "SELECT state, result FROM "+c.dedup+" WHERE key = $1", key).Scan(&state, &result)
	if err == nil && state != "done" {
		err = fmt.Errorf("state of a finished key: %s", state)
	}
	return err
}

// threeTxReplay delivers one key that is already done, again and again, to threeTx.
type threeTxReplay struct {
	threeTx

	key string
}

func (*threeTxReplay) Name() string { return "threetx_replay" }

func (c *threeTxReplay) Setup(ctx context.Context, pool *pgxpool.Pool) error {
	if err := c.threeTx.Setup(ctx, pool); err != nil {
		return err
	}
	c.key = newKey()
	_, err := c.do(ctx, pool, c.key)
	return err
}

func (c *threeTxReplay) Op(ctx context.Context, pool *pgxpool.Pool, _ int) error {
	fresh, err := c.do(ctx, pool, c.key)
	if err == nil && fresh {
		err = errors.New("a duplicate was done again")
	}
	return err
}
