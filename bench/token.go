package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/txn"
)

// rawToken is the usual hand-written token: a row that is inserted, and deleted in the business transaction. A second click is
// refused, not answered with the first result.
type rawToken struct{ orders, tokens string }

func (rawToken) Name() string { return "rawtoken" }

func (c rawToken) Setup(ctx context.Context, pool *pgxpool.Pool) error {
	if err := createOrders(ctx, pool, c.orders); err != nil {
		return err
	}
	_, err := pool.Exec(ctx, fmt.Sprintf(`CREATE TABLE %s (
		hash       bytea PRIMARY KEY,
		owner      text NOT NULL,
		expires_at timestamptz NOT NULL
	)`, c.tokens))
	return err
}

func (c rawToken) Op(ctx context.Context, pool *pgxpool.Pool, _ int) error {
	token := rand.Text()
	hash := sha256.Sum256([]byte(token))
	if _, err := pool.Exec(ctx, "INSERT INTO "+c.tokens+" (hash, owner, expires_at) VALUES ($1, $2, now() + interval '12 hours')", hash[:], "ann"); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, "DELETE FROM "+c.tokens+" WHERE hash = $1 AND owner = $2 AND expires_at > now()", hash[:], "ann")
		if err != nil {
			return err
		}
		if tag.RowsAffected() != 1 {
			return fmt.Errorf("%d tokens redeemed", tag.RowsAffected())
		}
		_, err = insertOrder(ctx, tx, c.orders, token)
		return err
	})
}

// onceToken issues a token and redeems it by txn.Run.
type onceToken struct{ orders, scope string }

func (onceToken) Name() string { return "token" }

func (c onceToken) Setup(ctx context.Context, pool *pgxpool.Pool) error {
	if err := setupOnce(ctx, pool, c.orders, c.scope); err != nil {
		return err
	}
	_, err := pool.Exec(ctx, "SELECT once.alter_scope($1, p_session_length => '12 hours')", c.scope)
	return err
}

func (c onceToken) Op(ctx context.Context, pool *pgxpool.Pool, _ int) error {
	token, err := txn.IssueToken(ctx, pool, c.scope, "ann", 0)
	if err != nil {
		return err
	}
	req := txn.Request{Scope: c.scope, Subject: "ann", Token: token}
	result, err := txn.Run(ctx, pool, req, func(ctx context.Context, tx pgx.Tx) (orderResult, error) {
		id, err := insertOrder(ctx, tx, c.orders, token)
		return orderResult{ID: id}, err
	})
	if err == nil && result.Outcome != pgonce.Fresh {
		err = fmt.Errorf("outcome %s, expected fresh", result.Outcome)
	}
	return err
}
