package main

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// walPerOp is the write-ahead log of one operation.
type walPerOp struct {
	Bytes   float64
	Records float64 // 0 where the server does not tell (before PostgreSQL 15)
	Images  float64 // full-page images; close to 0 when the warm-up was long enough
}

// measureWAL runs the operation n times on one connection and returns its share of the log. The tables must have
// been warmed up since the last checkpoint, otherwise the images of whole pages, written once a page and checkpoint,
// drown everything else.
func measureWAL(ctx context.Context, c contender, pool *pgxpool.Pool, serverVersion, n int) (walPerOp, error) {
	before, err := readWAL(ctx, pool, serverVersion)
	if err != nil {
		return walPerOp{}, err
	}
	if err := repeat(ctx, c, pool, n); err != nil {
		return walPerOp{}, err
	}
	after, err := readWAL(ctx, pool, serverVersion)
	if err != nil {
		return walPerOp{}, err
	}
	return walPerOp{
		Bytes:   (after.Bytes - before.Bytes) / float64(n),
		Records: (after.Records - before.Records) / float64(n),
		Images:  (after.Images - before.Images) / float64(n),
	}, nil
}

// readWAL reads the position in the log and the counters of the whole server. The pool must have one connection
// only: the counters of a session arrive when that session flushes them.
func readWAL(ctx context.Context, pool *pgxpool.Pool, serverVersion int) (walPerOp, error) {
	var wal walPerOp
	if serverVersion < 150000 {
		err := pool.QueryRow(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0')::float8").Scan(&wal.Bytes)
		return wal, err
	}
	if _, err := pool.Exec(ctx, "SELECT pg_stat_force_next_flush()"); err != nil {
		return wal, err
	}
	err := pool.QueryRow(ctx, `SELECT (pg_current_wal_insert_lsn() - '0/0')::float8, wal_records::float8, wal_fpi::float8
		FROM pg_stat_wal`).Scan(&wal.Bytes, &wal.Records, &wal.Images)
	return wal, err
}
