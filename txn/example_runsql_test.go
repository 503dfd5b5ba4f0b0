package txn_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/pgonce/pgonce/txn"
)

// With database/sql, over the driver of pgx.
func ExampleRunSQL() {
	ctx := context.Background()
	db, cleanUp := exampleSQL()
	defer cleanUp()

	req := txn.Request{Scope: "payments", Key: "order-20"}
	for range 2 {
		result, err := txn.RunSQL(ctx, db, req, func(ctx context.Context, tx *sql.Tx) (id int64, err error) {
			err = tx.QueryRowContext(ctx, "INSERT INTO public.payment (amount) VALUES (100) RETURNING id").Scan(&id)
			return id, err
		})
		fmt.Println(result.Outcome, result.Value, err)
	}
	// Output:
	// fresh 1 <nil>
	// replay 1 <nil>
}
