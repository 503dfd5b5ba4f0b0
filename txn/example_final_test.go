package txn_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/txn"
)

// A refusal that a retry cannot change is stored. The payment that the function wrote before is undone.
func ExampleFinal() {
	ctx := context.Background()
	pool, cleanUp := exampleDatabase()
	defer cleanUp()

	req := txn.Request{Scope: "payments", Key: "order-18"}
	for range 2 {
		_, err := txn.Run(ctx, pool, req, func(ctx context.Context, tx pgx.Tx) (int, error) {
			if _, err := tx.Exec(ctx, "INSERT INTO public.payment (amount) VALUES (100)"); err != nil {
				return 0, err
			}
			return 0, txn.Final(errors.New("card declined"))
		})
		var failed *pgonce.FailedError
		if errors.As(err, &failed) {
			fmt.Println("refused:", failed.Message, "replayed:", failed.Replayed)
		}
	}
	// Output:
	// refused: card declined replayed: false
	// refused: card declined replayed: true
}
