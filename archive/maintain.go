package archive

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// DefaultWait is how long Maintain waits for transactions that hold a step back.
const DefaultWait = 3 * time.Second

// DB is where maintenance runs: *pgxpool.Pool, *pgxpool.Conn or *pgx.Conn. A transaction is refused by the server, because
// each step is a transaction of its own.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Options of Maintain. The zero value maintains every scope.
type Options struct {
	// Scope is the one to maintain. Empty: all.
	Scope string
	// Wait is how long to wait, in all, for transactions that hold a step back; what remains is done by a later call.
	// Zero means DefaultWait, negative not at all.
	Wait time.Duration
	// Now is the time to act as if it had come, and to record, for tests. Zero, or a time that is past, is the
	// database's clock.
	Now time.Time
}

// Maintain rotates, drains, retires and repairs the scopes, as far as each is due, and reports it. Call it every minute: see
// Every. Claims never wait for it.
//
// Each step is a transaction of its own, so that a call which fails, or is killed, leaves nothing half done, and the next
// one goes on from there. Any number of processes may maintain at once: where another is at work on a scope, the report
// says busy.
//
// A generation whose turn has come leaves its parent by a plain DETACH that gives up after 50 milliseconds, since new
// sessions could queue behind it. Where it had to give up, because the parent is being read, Maintain does what SQL cannot:
// it detaches CONCURRENTLY, which lets new readers pass while it waits for those that were there before, and maintains again.
// Only the owner of the tables can; for another role the step stays busy.
//
// A scope that does not exist is an error with the SQLSTATE pgonce.CodeUnknownScope. With an error, the report holds what
// is known of the steps before it.
func Maintain(ctx context.Context, db DB, opts Options) (Report, error) {
	if opts.Wait == 0 {
		opts.Wait = DefaultWait
	}
	// One session throughout, since the lock_timeout of the detaching is the session's.
	if pool, ok := db.(interface {
		Acquire(ctx context.Context) (*pgxpool.Conn, error)
	}); ok {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return Report{}, fmt.Errorf("maintain: %w", err)
		}
		defer conn.Release()
		db = conn
	}

	report, err := call(ctx, db, opts)
	if err != nil {
		return report, fmt.Errorf("maintain: %w", err)
	}
	var again []string
	for _, e := range report.With(Busy) {
		if e.Step != "detach" {
			continue
		}
		done, err := detach(ctx, db, e.Scope, e.Generation)
		if err != nil {
			return report, fmt.Errorf("maintain: detach generation %d of %s: %w", e.Generation, e.Scope, err)
		}
		if done && !slices.Contains(again, e.Scope) {
			again = append(again, e.Scope)
		}
	}
	for _, scope := range again {
		opts.Scope, opts.Wait = scope, -1
		next, err := call(ctx, db, opts)
		if err != nil {
			return report, fmt.Errorf("maintain: %w", err)
		}
		report = report.followedBy(scope, next)
	}
	return report, nil
}

// call is the procedure itself. Its report comes as the row of its INOUT parameter.
func call(ctx context.Context, db DB, opts Options) (Report, error) {
	var scope *string
	if opts.Scope != "" {
		scope = &opts.Scope
	}
	var now *time.Time
	if !opts.Now.IsZero() {
		now = &opts.Now
	}
	var data []byte
	err := db.QueryRow(ctx, "CALL once.maintain($1::text, $2::interval, $3::timestamptz, NULL)",
		scope, max(opts.Wait, 0), now).Scan(&data)
	if err != nil {
		return Report{}, err
	}
	report := Report{}
	if err := json.Unmarshal(data, &report.Events); err != nil {
		return Report{}, fmt.Errorf("read the report: %w", err)
	}
	return report, nil
}
