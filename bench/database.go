package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// database is the fresh database of one benchmark.
type database struct {
	config  *pgxpool.Config // to the database, without a size
	server  *pgx.Conn       // to the server's maintenance database
	name    string
	Version int // server_version_num
}

// createDatabase creates an empty database on the server at url. sync says whether commits wait for the disk.
func createDatabase(ctx context.Context, url string, sync bool) (*database, error) {
	server, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}

	db := &database{config: config, server: server, name: fmt.Sprintf("pgonce_bench_%d", time.Now().UnixNano())}
	if err := server.QueryRow(ctx, "SELECT current_setting('server_version_num')::int").Scan(&db.Version); err != nil {
		return nil, err
	}
	if _, err := server.Exec(ctx, "CREATE DATABASE "+db.name); err != nil {
		return nil, err
	}
	config.ConnConfig.Database = db.name
	config.ConnConfig.RuntimeParams["application_name"] = "pgonce_bench"
	config.ConnConfig.RuntimeParams["synchronous_commit"] = map[bool]string{true: "on", false: "off"}[sync]
	return db, nil
}

// pool opens a pool of exactly size connections. dial and addr may be nil; addr is the address of a proxy to use
// instead of the server's.
func (db *database) pool(ctx context.Context, size int, dial pgconn.DialFunc, addr *hostPort) (*pgxpool.Pool, error) {
	config := db.config.Copy()
	config.MinConns = int32(size)
	config.MaxConns = int32(size)
	if dial != nil {
		config.ConnConfig.DialFunc = dial
	}
	if addr != nil {
		config.ConnConfig.Host, config.ConnConfig.Port = addr.Host, addr.Port
		config.ConnConfig.Fallbacks = nil
		config.ConnConfig.TLSConfig = nil // the proxy reads the protocol
	}
	return pgxpool.NewWithConfig(ctx, config)
}

// checkpoint makes the server write a checkpoint, which takes a superuser or a member of pg_checkpoint. It also
// settles the session's statistics: what CREATE DATABASE logged shall not arrive in the middle of a measurement.
func (db *database) checkpoint(ctx context.Context) error {
	_, err := db.server.Exec(ctx, "CHECKPOINT")
	if err == nil && db.Version >= 150000 {
		_, err = db.server.Exec(ctx, "SELECT pg_stat_force_next_flush()")
	}
	return err
}

// drop removes the database. It is meant for the end, when the context of the benchmark may be over.
func (db *database) drop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	defer db.server.Close(ctx) //nolint:errcheck // the process ends
	_, err := db.server.Exec(ctx, "DROP DATABASE "+db.name+" WITH (FORCE)")
	return err
}
