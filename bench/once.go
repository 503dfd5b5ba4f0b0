package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/migrate"
	"github.com/pgonce/pgonce/txn"
)

// orderResult is what a caller gets back, first time and on every replay.
type orderResult struct {
	ID int64 `json:"id"`
}

// onceContenders returns the contenders that pgonce protects.
func onceContenders() []contender {
	return []contender{
		onceRun{orders: "run_orders", scope: "bench_run"},
		onceConsume{orders: "consume_orders", scope: "bench_consume"},
		onceSQL{orders: "sql_orders", scope: "bench_sql"},
		&onceReplay{onceRun: onceRun{orders: "replay_orders", scope: "bench_replay"}},
	}
}

// setupOnce installs pgonce, unless a contender before did, and creates a business table and a scope.
func setupOnce(ctx context.Context, pool *pgxpool.Pool, orders, scope string) error {
	if err := createOrders(ctx, pool, orders); err != nil {
		return err
	}
	if err := migrate.Up(ctx, pool); err != nil {
		return err
	}
	_, err := pool.Exec(ctx, "SELECT once.create_scope($1, p_window => interval '7 days', p_retry_horizon => interval '3 days')", scope)
	return err
}

// onceRun is txn.Run: the business with a stored result.
type onceRun struct{ orders, scope string }

func (onceRun) Name() string { return "run" }

func (c onceRun) Setup(ctx context.Context, pool *pgxpool.Pool) error {
	return setupOnce(ctx, pool, c.orders, c.scope)
}

func (c onceRun) Op(ctx context.Context, pool *pgxpool.Pool, _ int) error {
	return c.do(ctx, pool, newKey(), pgonce.Fresh)
}

func (c onceRun) do(ctx context.Context, pool *pgxpool.Pool, key string, want pgonce.Outcome) error {
	req := txn.Request{Scope: c.scope, Key: key, Fingerprint: fingerprint}
	result, err := txn.Run(ctx, pool, req, func(ctx context.Context, tx pgx.Tx) (orderResult, error) {
		id, err := insertOrder(ctx, tx, c.orders, key)
		return orderResult{ID: id}, err
	})
	if err != nil {
		return err
	}
	if result.Outcome != want || result.Value.ID == 0 {
		return fmt.Errorf("outcome %s of order %d, expected %s", result.Outcome, result.Value.ID, want)
	}
	return nil
}

// onceReplay delivers one key that is already done, again and again, to txn.Run.
type onceReplay struct {
	onceRun

	key string
}

func (*onceReplay) Name() string { return "replay" }

func (c *onceReplay) Setup(ctx context.Context, pool *pgxpool.Pool) error {
	if err := c.onceRun.Setup(ctx, pool); err != nil {
		return err
	}
	c.key = newKey()
	return c.do(ctx, pool, c.key, pgonce.Fresh)
}

func (c *onceReplay) Op(ctx context.Context, pool *pgxpool.Pool, _ int) error {
	return c.do(ctx, pool, c.key, pgonce.Replay)
}

// onceConsume is txn.Consume: the business without a result, as a consumer of messages does it.
type onceConsume struct{ orders, scope string }

func (onceConsume) Name() string { return "consume" }

func (c onceConsume) Setup(ctx context.Context, pool *pgxpool.Pool) error {
	return setupOnce(ctx, pool, c.orders, c.scope)
}

func (c onceConsume) Op(ctx context.Context, pool *pgxpool.Pool, _ int) error {
	req := txn.Request{Scope: c.scope, Key: newKey(), Fingerprint: fingerprint}
	outcome, err := txn.Consume(ctx, pool, req, func(ctx context.Context, tx pgx.Tx) error {
		_, err := insertOrder(ctx, tx, c.orders, req.Key)
		return err
	})
	if err == nil && outcome != pgonce.Fresh {
		err = fmt.Errorf("outcome of a new message: %s", outcome)
	}
	return err
}

// onceSQL calls the SQL functions one by one inside the business transaction, as a program in any language can. What
// txn.Run saves against it is round trips.
type onceSQL struct{ orders, scope string }

func (onceSQL) Name() string { return "sql" }

func (c onceSQL) Setup(ctx context.Context, pool *pgxpool.Pool) error {
	return setupOnce(ctx, pool, c.orders, c.scope)
}

func (c onceSQL) Op(ctx context.Context, pool *pgxpool.Pool, _ int) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx) //nolint:errcheck // a no-op after Commit

	var (
		key     = newKey()
		outcome string
		attempt int32
		claimID pgtype.UUID
	)
	err = tx.QueryRow(ctx, "SELECT outcome::text, attempt, claim_id FROM once.claim($1, $2, $3, p_defer => true)",
		c.scope, key, fingerprint).Scan(&outcome, &attempt, &claimID)
	if err != nil {
		return err
	}
	if outcome != string(pgonce.Fresh) {
		return fmt.Errorf("outcome of a new key: %s", outcome)
	}

	id, err := insertOrder(ctx, tx, c.orders, key)
	if err != nil {
		return err
	}
	result, err := json.Marshal(orderResult{ID: id})
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "SELECT once.complete($1, $2, $3, $4, $5, 'application/json', p_fingerprint => $6)",
		c.scope, key, claimID, attempt, result, fingerprint)
	if err != nil {
		return err
	}
	return tx.Commit(ctx)
}
