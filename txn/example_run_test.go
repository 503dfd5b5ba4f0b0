package txn_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pgonce/pgonce/txn"
)

// A payment is taken once, however often its request arrives. The second caller is given the first one's result.
func ExampleRun() {
	ctx := context.Background()
	pool, cleanUp := exampleDatabase()
	defer cleanUp()

	req := txn.Request{Scope: "payments", Key: "order-17"}
	for range 2 {
		result, err := txn.Run(ctx, pool, req, func(ctx context.Context, tx pgx.Tx) (id int64, err error) {
			err = tx.QueryRow(ctx, "INSERT INTO public.payment (amount) VALUES (100) RETURNING id").Scan(&id)
			return id, err
		})
		fmt.Println(result.Outcome, result.Value, err)
	}
	// Output:
	// fresh 1 <nil>
	// replay 1 <nil>
}
