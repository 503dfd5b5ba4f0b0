package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// raw is the usual hand-written protection: an insert into a deduplication table inside the business transaction.
// It stores no result, and its table grows until someone deletes from it.
type raw struct{ orders, dedup string }

func (raw) Name() string { return "raw" }

func (c raw) Setup(ctx context.Context, pool *pgxpool.Pool) error {
	if err := createOrders(ctx, pool, c.orders); err != nil {
		return err
	}
	_, err := pool.Exec(ctx, fmt.Sprintf(`CREATE TABLE %s (
		key         text PRIMARY KEY,
		fingerprint bytea NOT NULL,
		created_at  timestamptz NOT NULL DEFAULT now()
	)`, c.dedup))
	return err
}

func (c raw) Op(ctx context.Context, pool *pgxpool.Pool, _ int) error {
	fresh, err := c.do(ctx, pool, newKey())
	if err == nil && !fresh {
		err = errors.New("a new key was taken for a duplicate")
	}
	return err
}

// do reports whether the key was new, in which case the business was done.
func (c raw) do(ctx context.Context, pool *pgxpool.Pool, key string) (bool, error) {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return false, err
	}
	defer tx.Rollback(ctx) //nolint:errcheck // a no-op after Commit

	tag, err := tx.Exec(ctx, "INSERT INTO "+c.dedup+" (key, fingerprint) VALUES ($1, $2) ON CONFLICT DO NOTHING",
		key, fingerprint)
	if err != nil {
		return false, err
	}
	if tag.RowsAffected() == 0 {
		return false, nil
	}
	if _, err := insertOrder(ctx, tx, c.orders, key); err != nil {
		return false, err
	}
	return true, tx.Commit(ctx)
}

// rawReplay delivers one key that is already done, again and again, to raw.
type rawReplay struct {
	raw

	key string
}

func (*rawReplay) Name() string { return "raw_replay" }

func (c *rawReplay) Setup(ctx context.Context, pool *pgxpool.Pool) error {
	if err := c.raw.Setup(ctx, pool); err != nil {
		return err
	}
	c.key = newKey()
	_, err := c.do(ctx, pool, c.key)
	return err
}

func (c *rawReplay) Op(ctx context.Context, pool *pgxpool.Pool, _ int) error {
	fresh, err := c.do(ctx, pool, c.key)
	if err == nil && fresh {
		err = errors.New("a duplicate was done again")
	}
	return err
}
