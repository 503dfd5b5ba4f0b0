// Command callback receives payment callbacks and grants each one's coupon once, however often it is delivered.
//
//	DATABASE_URL=postgres://… go run ./examples/callback
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/txn"
)

// Event is what a payment provider sends.
type Event struct {
	ID    string `json:"id"`
	Order string `json:"order"`
}

// Grant is what the first delivery did, and what every further one is told.
type Grant struct {
	Coupon int64 `json:"coupon"`
}

// README: from here
func grant(ctx context.Context, pool *pgxpool.Pool, event Event) (Grant, error) {
	request := txn.Request{Scope: "pay_callback", Key: event.ID}
	done, err := txn.Run(ctx, pool, request, func(ctx context.Context, tx pgx.Tx) (Grant, error) {
		var g Grant
		err := tx.QueryRow(ctx, "INSERT INTO coupon (order_ref) VALUES ($1) RETURNING id", event.Order).Scan(&g.Coupon)
		return g, err
	})
	return done.Value, err // the first call's value, whichever call this is
}

// README: to here

func main() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("POST /callback", func(w http.ResponseWriter, r *http.Request) {
		var event Event
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&event); err != nil {
			http.Error(w, "not an event", http.StatusBadRequest)
			return
		}
		g, err := grant(r.Context(), pool, event)
		switch {
		case err == nil:
			_ = json.NewEncoder(w).Encode(g)
		case pgonce.Code(err) == pgonce.CodeInvalidKey:
			http.Error(w, "event has no usable id", http.StatusBadRequest)
		case errors.Is(err, pgonce.ErrInProgress):
			http.Error(w, "being worked on, come again", http.StatusConflict)
		default:
			log.Print(err)
			http.Error(w, "come again", http.StatusInternalServerError)
		}
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", nil))
}
