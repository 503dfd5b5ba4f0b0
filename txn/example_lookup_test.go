package txn_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/txn"
)

// What became of a key, without claiming it.
func ExampleLookup() {
	ctx := context.Background()
	pool, cleanUp := exampleDatabase()
	defer cleanUp()

	_, err := txn.Run(ctx, pool, txn.Request{Scope: "payments", Key: "order-21"},
		func(context.Context, pgx.Tx) (string, error) { return "paid", nil })
	if err != nil {
		fmt.Println(err)
	}
	for _, key := range []string{"order-21", "order-22"} {
		record, found, err := txn.Lookup(ctx, pool, pgonce.Key{Scope: "payments", Key: key})
		fmt.Println(key, found, record.State, string(record.Result), err)
	}
	// Output:
	// order-21 true done "paid" <nil>
	// order-22 false   <nil>
}
