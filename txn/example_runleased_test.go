package txn_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pgonce/pgonce/txn"
)

// A card is charged by a provider, outside the database. The first attempt charges, then fails to book; the second one, which takes
// over, does not charge again.
func ExampleRunLeased() {
	ctx := context.Background()
	pool, cleanUp := exampleDatabase()
	defer cleanUp()

	printer := errors.New("out of paper")
	work := func(ctx context.Context, lease *txn.Lease) (string, error) {
		charge, err := txn.Step(ctx, lease, "charge", func(context.Context) (string, error) {
			fmt.Println("charging, with a key of", len(lease.IdempotencyKey()), "digits")
			return "ch_1", nil
		})
		if err != nil {
			return "", err
		}
		if lease.Attempt() == 1 {
			return "", printer
		}
		return charge, nil
	}
	record := func(ctx context.Context, tx pgx.Tx, charge string) error {
		_, err := tx.Exec(ctx, "INSERT INTO public.payment (amount) VALUES (100)")
		return err
	}
	for range 3 {
		result, err := txn.RunLeased(ctx, pool, txn.Request{Scope: "payments", Key: "order-17"}, work, record)
		fmt.Println(result.Outcome, result.Value, result.Attempt, err)
	}
	// Output:
	// charging, with a key of 64 digits
	//   0 out of paper
	// fresh ch_1 2 <nil>
	// replay ch_1 2 <nil>
}
