package txn_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/txn"
)

// The caller owns the transaction.
func ExampleClaim() {
	ctx := context.Background()
	pool, cleanUp := exampleDatabase()
	defer cleanUp()

	pay := func(tx pgx.Tx) error {
		claimed, err := txn.Claim(ctx, tx, txn.Request{Scope: "payments", Key: "order-19"})
		if err != nil {
			return err
		}
		var id int64
		if claimed.Outcome == pgonce.Replay {
			err = claimed.Decode(&id)
		} else if err = tx.QueryRow(ctx, "INSERT INTO public.payment (amount) VALUES (100) RETURNING id").Scan(&id); err == nil {
			err = claimed.Complete(ctx, id)
		}
		fmt.Println(claimed.Outcome, id)
		return err
	}
	for range 2 {
		if err := pgx.BeginFunc(ctx, pool, pay); err != nil {
			fmt.Println(err) // run it again if txn.Retryable(err)
		}
	}
	// Output:
	// fresh 1
	// replay 1
}
