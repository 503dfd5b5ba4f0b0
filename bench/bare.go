package main

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// bare is the business without any protection: BEGIN, INSERT, COMMIT. It is what everything else is compared to.
type bare struct{ orders string }

func (bare) Name() string { return "bare" }

func (c bare) Setup(ctx context.Context, pool *pgxpool.Pool) error {
	return createOrders(ctx, pool, c.orders)
}

func (c bare) Op(ctx context.Context, pool *pgxpool.Pool, _ int) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx) //nolint:errcheck // a no-op after Commit

	if _, err := insertOrder(ctx, tx, c.orders, newKey()); err != nil {
		return err
	}
	return tx.Commit(ctx)
}
