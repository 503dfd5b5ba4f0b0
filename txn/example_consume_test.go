package txn_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pgonce/pgonce/txn"
)

// A queue delivers a message twice. Acknowledge it whenever there is no error.
func ExampleConsume() {
	ctx := context.Background()
	pool, cleanUp := exampleDatabase()
	defer cleanUp()

	for _, messageID := range []string{"message-1", "message-2", "message-1"} {
		req := txn.Request{Scope: "payments", Key: messageID}
		outcome, err := txn.Consume(ctx, pool, req, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO public.payment (amount) VALUES (100)")
			return err
		})
		fmt.Println(messageID, outcome, err)
	}
	// Output:
	// message-1 fresh <nil>
	// message-2 fresh <nil>
	// message-1 replay <nil>
}
