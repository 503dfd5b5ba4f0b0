package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A contender is one way to do the same piece of business, measured against the others.
type contender interface {
	// Name identifies the contender on the command line and in the results.
	Name() string

	// Setup creates what the contender needs in an empty database. It is called once, before any measurement.
	Setup(ctx context.Context, pool *pgxpool.Pool) error

	// Op does the business once. It is called by many goroutines at once; i counts the calls of one worker.
	Op(ctx context.Context, pool *pgxpool.Pool, i int) error
}

// contenders returns every contender in the order of the report.
func contenders() []contender {
	all := []contender{
		bare{orders: "bare_orders"},
		raw{orders: "raw_orders", dedup: "raw_dedup"},
		threeTx{orders: "threetx_orders", dedup: "threetx_dedup"},
	}
	all = append(all, onceContenders()...)
	return append(all,
		&rawReplay{raw: raw{orders: "raw_replay_orders", dedup: "raw_replay_dedup"}},
		rawToken{orders: "rawtoken_orders", tokens: "rawtoken_tokens"},
		onceToken{orders: "token_orders", scope: "bench_token"},
		&threeTxReplay{threeTx: threeTx{orders: "threetx_replay_orders", dedup: "threetx_replay_dedup"}},
	)
}

// fingerprint stands for the digest of a request. It is the same for every operation: computing one is not what
// is measured here.
var fingerprint = []byte("0123456789abcdef0123456789abcdef")

// newKey returns a random key of 36 bytes in the form of a UUID. Every contender draws one per operation, also
// those that only use it as the order's reference.
func newKey() string {
	var id [16]byte
	for i, n := 0, rand.Uint64(); i < 8; i, n = i+1, n>>8 {
		id[i] = byte(n)
	}
	for i, n := 8, rand.Uint64(); i < 16; i, n = i+1, n>>8 {
		id[i] = byte(n)
	}

	var buf [36]byte
	hex.Encode(buf[0:8], id[0:4])
	buf[8] = '-'
	hex.Encode(buf[9:13], id[4:6])
	buf[13] = '-'
	hex.Encode(buf[14:18], id[6:8])
	buf[18] = '-'
	hex.Encode(buf[19:23], id[8:10])
	buf[23] = '-'
	hex.Encode(buf[24:36], id[10:16])
	return string(buf[:])
}

// createOrders creates a business table.
func createOrders(ctx context.Context, pool *pgxpool.Pool, table string) error {
	_, err := pool.Exec(ctx, fmt.Sprintf(`CREATE TABLE %s (
		id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
		order_ref  text NOT NULL,
		amount     bigint NOT NULL,
		created_at timestamptz NOT NULL DEFAULT now()
	)`, table))
	return err
}

// insertOrder is the business itself: one statement, the same for every contender.
func insertOrder(ctx context.Context, tx pgx.Tx, table, ref string) (int64, error) {
	var id int64
	err := tx.QueryRow(ctx, "INSERT INTO "+table+" (order_ref, amount) VALUES ($1, $2) RETURNING id", ref, 4200).Scan(&id)
	return id, err
}
