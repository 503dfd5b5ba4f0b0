package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/txn"
)

// Defence is how a receiver keeps a second delivery of an event from granting again.
type Defence string

const (
	// DefencePgonce claims the event in the transaction that grants.
	DefencePgonce Defence = "pgonce"
	// DefenceNone grants whatever is delivered.
	DefenceNone Defence = "none"
)

// Headers between sender and receiver, which no provider sends.
const (
	headerStopAt  = "Demo-Stop-At" // the point at which the receiver is to stop, and be killed
	headerOutcome = "Demo-Outcome" // what became of each event, comma-separated
	headerCoupon  = "Demo-Coupon"  // what was granted for each event, comma-separated
)

// Points at which a receiver can be told to stop.
const (
	stopInBusiness   = "in-business"   // between claim and finish: the grant is written, nothing is committed
	stopBeforeAnswer = "before-answer" // everything is committed, the provider has not heard of it
)

// maxBody bounds a callback's body, in bytes.
const maxBody = 1 << 20

// receiver is an HTTP server for callbacks: POST /callbacks/<provider>.
type receiver struct {
	name    string // in demo.grants
	defence Defence
	pool    *pgxpool.Pool
	stopped func(point string) // announces that the receiver stands at the point
}

func (rc *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, found := strings.CutPrefix(r.URL.Path, "/callbacks/")
	if !found || r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	provider, err := ProviderByName(name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	events, err := identify(provider, r.Header, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}

	stop := func(ctx context.Context, point string) {
		if r.Header.Get(headerStopAt) == point {
			rc.stopped(point)
			<-ctx.Done()
		}
	}
	var outcomes, coupons []string
	for _, event := range events {
		result, err := rc.handle(r.Context(), provider, event, stop)
		if err != nil {
			// Events ahead of this one stay granted: the next delivery finds them done.
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		outcomes = append(outcomes, string(result.Outcome))
		coupons = append(coupons, result.Value)
	}
	stop(r.Context(), stopBeforeAnswer)

	w.Header().Set(headerOutcome, strings.Join(outcomes, ","))
	w.Header().Set(headerCoupon, strings.Join(coupons, ","))
	answer := provider.Answer()
	if answer.ContentType != "" {
		w.Header().Set("Content-Type", answer.ContentType)
	}
	w.WriteHeader(answer.Status)
	_, _ = io.WriteString(w, answer.Body) // the sender's loss shows as a missing answer
}

// handle grants one event and returns the coupon.
func (rc *receiver) handle(
	ctx context.Context, provider Provider, event Event, stop func(context.Context, string),
) (txn.Result[string], error) {
	grant := func(ctx context.Context, tx pgx.Tx) (string, error) {
		var coupon string
		err := tx.QueryRow(ctx,
			"INSERT INTO demo.grants (receiver, provider, event, kind, note) VALUES ($1, $2, $3, $4, $5) RETURNING coupon::text",
			rc.name, provider.Name(), event.ID, event.Kind, event.Note).Scan(&coupon)
		if err == nil {
			stop(ctx, stopInBusiness)
		}
		return coupon, err
	}

	guard, found := guards[rc.defence]
	if !found {
		return txn.Result[string]{}, fmt.Errorf("unknown defence %q", rc.defence)
	}
	return guard(ctx, rc.pool, provider, event, grant)
}

// grantFunc writes the grant of an event, in the caller's transaction, and returns its coupon.
type grantFunc func(ctx context.Context, tx pgx.Tx) (string, error)

// guards are the defences. The first is all that a user of pgonce writes.
var guards = map[Defence]func(context.Context, *pgxpool.Pool, Provider, Event, grantFunc) (txn.Result[string], error){
	DefencePgonce: func(ctx context.Context, pool *pgxpool.Pool, p Provider, e Event, grant grantFunc) (txn.Result[string], error) {
		return txn.Run(ctx, pool, txn.Request{Scope: p.Name(), Key: e.ID}, grant)
	},
	DefenceNone: func(ctx context.Context, pool *pgxpool.Pool, _ Provider, _ Event, grant grantFunc) (txn.Result[string], error) {
		result := txn.Result[string]{Outcome: pgonce.Fresh}
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
			result.Value, err = grant(ctx, tx)
			return err
		})
		return result, err
	},
}

// receiverEnv holds the settings of a receiver's process. A process that has it is one.
const receiverEnv = "PGONCE_DEMO_RECEIVER"

type receiverSettings struct {
	Name        string  `json:"name"`
	Defence     Defence `json:"defence"`
	DatabaseURL string  `json:"database_url"`
}

// Lines that a receiver writes to its parent.
const (
	lineListening = "listening " // and its address
	lineStopped   = "stopped "   // and the point
)

// IsReceiver reports whether this process was started as a receiver by [Run]. A program that calls Run must ask
// this first, and then do nothing but [ReceiverMain].
func IsReceiver() bool { return os.Getenv(receiverEnv) != "" }

// ReceiverMain serves callbacks until its parent goes away, and returns the exit status.
func ReceiverMain() int {
	if err := serveReceiver(os.Stdin, os.Stdout, os.Getenv(receiverEnv)); err != nil {
		fmt.Fprintln(os.Stderr, "receiver:", err)
		return 1
	}
	return 0
}

func serveReceiver(parent io.Reader, lines io.Writer, settingsJSON string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	var settings receiverSettings
	if err := json.Unmarshal([]byte(settingsJSON), &settings); err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, settings.DatabaseURL)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pool.Ping(ctx); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}

	server := &http.Server{
		Handler: &receiver{
			name:    settings.Name,
			defence: settings.Defence,
			pool:    pool,
			stopped: func(point string) { fmt.Fprintln(lines, lineStopped+point) },
		},
		ReadHeaderTimeout: 10 * time.Second,
	}
	go func() {
		_, _ = io.Copy(io.Discard, parent) // ends with the parent
		_ = server.Close()
	}()
	fmt.Fprintln(lines, lineListening+listener.Addr().String())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
