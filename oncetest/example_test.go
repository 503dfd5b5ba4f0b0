package oncetest_test

import (
	"context"
	"fmt"
	"log"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgonce/pgonce/oncetest"
)

// Without a testing.T, in a demonstration or a benchmark program, take the server itself.
func ExampleFindServer() {
	ctx := context.Background()
	server, err := oncetest.FindServer(ctx, oncetest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = server.Stop() }()

	conn, err := pgx.Connect(ctx, server.URL())
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()

	var supported bool
	err = conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int >= 140000").Scan(&supported)
	fmt.Println(supported, err)
	// Output: true <nil>
}

func ExamplePostgres() {
	_ = func(t *testing.T) { // the test function
		t.Parallel()
		db := oncetest.Postgres(t)

		var version int
		err := db.Pool.QueryRow(t.Context(), "SELECT version FROM once.schema_migrations").Scan(&version)
		if err != nil {
			t.Fatal(err)
		}
	}
}
