package migrate_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgonce/pgonce/migrate"
	"github.com/pgonce/pgonce/oncetest"
)

func ExampleUp() {
	ctx := context.Background()
	server, err := oncetest.FindServer(ctx, oncetest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = server.Stop() }()
	pool, err := pgxpool.New(ctx, server.URL())
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	if err := migrate.Up(ctx, pool); err != nil {
		log.Fatal(err)
	}
	state, err := migrate.Status(ctx, pool)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("up to date:", state.Version == state.Latest && !state.Dirty)
	// Output: up to date: true
}
