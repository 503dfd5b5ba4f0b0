package txn_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/txn"
)

// A form carries a token. However often it is sent, and by whom, one order comes of it.
func ExampleIssueToken() {
	ctx := context.Background()
	pool, cleanUp := exampleDatabase()
	defer cleanUp()
	if _, err := pool.Exec(ctx, "SELECT once.alter_scope('payments', p_session_length => '12 hours')"); err != nil {
		fmt.Println(err)
		return
	}

	token, err := txn.IssueToken(ctx, pool, "payments", "ann", 0) // put it into the form
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, user := range []string{"ann", "ann", "bob"} { // a double click, and somebody who copied the form
		req := txn.Request{Scope: "payments", Subject: user, Token: token}
		result, err := txn.Run(ctx, pool, req, func(ctx context.Context, tx pgx.Tx) (id int64, err error) {
			err = tx.QueryRow(ctx, "INSERT INTO public.payment (amount) VALUES (100) RETURNING id").Scan(&id)
			return id, err
		})
		var invalid *pgonce.TokenError
		if errors.As(err, &invalid) {
			fmt.Printf("%v (%s)\n", err, invalid.Problem) // the problem is for the log
			continue
		}
		fmt.Println(result.Outcome, result.Value, err)
	}
	// Output:
	// fresh 1 <nil>
	// replay 1 <nil>
	// token is not valid (foreign)
}
