//go:build linux

package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/txn"
)

// handler does an operation, once if it can.
type handler struct {
	name    string
	do      func(ctx context.Context, pool *pgxpool.Pool, key string) (int64, error)
	answers bool // whether do returns the operation's result
	once    bool // whether the key is finished with the row
}

var (
	byRun     = handler{"Run", doRun, true, true}
	byConsume = handler{"Consume", doConsume, false, true}
	byPlain   = handler{"plain SQL", doPlain, true, true}

	// What is done without pgonce, or by using it against its rules.
	byNothing    = handler{"no dedup", doNothing, false, false}
	byMarkAfter  = handler{"key marked in a second transaction", doMarkAfter, false, false}
	byMarkBefore = handler{"key marked in a transaction before", doMarkBefore, false, false}
)

var sound = []handler{byRun, byConsume, byPlain}

// impossible reports whether no fault excuses an error: the load neither fails operations nor changes requests, and misuses
// nothing.
func impossible(err error) bool {
	for _, never := range []error{pgonce.ErrMismatch, pgonce.ErrFailed, pgonce.ErrParked, pgonce.ErrResultOmitted} {
		if errors.Is(err, never) {
			return true
		}
	}
	return strings.HasPrefix(pgonce.Code(err), "ON")
}

// isolation is one of the levels, the default most often.
func isolation() pgx.TxIsoLevel {
	levels := []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}
	return levels[rand.N(len(levels))]
}

func request(key string) txn.Request {
	return txn.Request{Scope: "s", Key: key, Fingerprint: []byte(key), TxOptions: pgx.TxOptions{IsoLevel: isolation()}}
}

// write is the business. The value tells this execution from every other; some executions take a while.
func write(ctx context.Context, tx pgx.Tx, key string) (int64, error) {
	value := rand.Int64()
	pause := 0.0
	if rand.N(8) == 0 {
		pause = 0.01
	}
	_, err := tx.Exec(ctx, "INSERT INTO public.ledger (key, value) SELECT $1, $2 FROM pg_sleep($3)", key, value, pause)
	return value, err
}

func doRun(ctx context.Context, pool *pgxpool.Pool, key string) (int64, error) {
	result, err := txn.Run(ctx, pool, request(key), func(ctx context.Context, tx pgx.Tx) (int64, error) { return write(ctx, tx, key) })
	return result.Value, err
}

func doConsume(ctx context.Context, pool *pgxpool.Pool, key string) (int64, error) {
	_, err := txn.Consume(ctx, pool, request(key), func(ctx context.Context, tx pgx.Tx) error {
		_, err := write(ctx, tx, key)
		return err
	})
	return 0, err
}

// doPlain is what a client without the library does, over the simple protocol like psql.
func doPlain(ctx context.Context, pool *pgxpool.Pool, key string) (value int64, err error) {
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: isolation()}, func(tx pgx.Tx) error {
		value, err = plain(ctx, tx, key)
		return err
	})
	return value, err
}

// plain claims, writes and completes in tx.
func plain(ctx context.Context, tx pgx.Tx, key string) (int64, error) {
	c, err := claim(ctx, tx, key)
	if err != nil {
		return 0, err
	}
	switch c.outcome {
	case "replay":
		return strconv.ParseInt(c.result, 10, 64)
	case "fresh":
	default:
		return 0, fmt.Errorf("the claim says %s", c.outcome)
	}
	value, err := write(ctx, tx, key)
	if err != nil {
		return 0, err
	}
	return value, complete(ctx, tx, key, c, value)
}

// claimed is an answer of once.claim.
type claimed struct {
	outcome, id, result string
	attempt             int
}

func claim(ctx context.Context, tx pgx.Tx, key string) (c claimed, err error) {
	err = tx.QueryRow(ctx, `SELECT outcome::text, coalesce(claim_id::text, ''), attempt, coalesce(convert_from(result, 'UTF8'), '')
		FROM once.claim('s', $1, convert_to($1, 'UTF8'))`, pgx.QueryExecModeSimpleProtocol, key).Scan(&c.outcome, &c.id, &c.attempt, &c.result)
	return c, err
}

func complete(ctx context.Context, tx pgx.Tx, key string, c claimed, value int64) error {
	_, err := tx.Exec(ctx, "SELECT once.complete('s', $1, $2, $3, convert_to($4, 'UTF8'))", pgx.QueryExecModeSimpleProtocol, key, c.id,
		c.attempt, strconv.FormatInt(value, 10))
	return err
}

// doNothing relies on nobody retrying.
func doNothing(ctx context.Context, pool *pgxpool.Pool, key string) (int64, error) {
	return 0, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := write(ctx, tx, key)
		return err
	})
}

// doMarkAfter looks whether the key is known, does the work, and marks the key afterwards.
func doMarkAfter(ctx context.Context, pool *pgxpool.Pool, key string) (int64, error) {
	var known bool
	if err := pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM once.lookup('s', $1))", key).Scan(&known); err != nil || known {
		return 0, err
	}
	if _, err := doNothing(ctx, pool, key); err != nil {
		return 0, err
	}
	return 0, mark(ctx, pool, key)
}

// doMarkBefore marks the key, and then does the work.
func doMarkBefore(ctx context.Context, pool *pgxpool.Pool, key string) (int64, error) {
	var known bool
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT outcome <> 'fresh' FROM once.claim('s', $1, p_done => true)", key).Scan(&known)
	})
	if err != nil || known {
		return 0, err
	}
	return doNothing(ctx, pool, key)
}

func mark(ctx context.Context, pool *pgxpool.Pool, key string) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "SELECT FROM once.claim('s', $1, p_done => true)", key)
		return err
	})
}
