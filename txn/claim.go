package txn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/db"
)

// Claimed is a key that Claim took, or found done. It belongs to the transaction that Claim was given, and like that
// transaction to one goroutine at a time.
type Claimed struct {
	// Outcome is pgonce.Fresh if the claim was taken: do the work, then call Complete, Fail or Release. It is
	// pgonce.Replay if the operation was done before: there is nothing to do, Decode gives its result.
	Outcome pgonce.Outcome
	// Attempt is the fencing number of the claim that does, or did, the work.
	Attempt int32

	// Result is what a replayed operation stored, nil if it stored nothing; ContentType and Meta belong to it.
	Result      []byte
	ContentType string
	Meta        []byte
	// OmittedBytes is the size of a result that was too large to be stored, otherwise zero.
	OmittedBytes int64
	// FinishedAt is when a replayed operation was finished, by the database's clock.
	FinishedAt time.Time

	tx      pgx.Tx
	req     Request
	claimID pgtype.UUID
}

// Claim takes the request's key in a transaction that the caller began and will commit. It is for code that cannot hand its
// work to Run. Do the business writes in tx, end the claim by Complete, then commit: all of it counts, or nothing.
//
//	tx, err := pool.Begin(ctx)
//	defer tx.Rollback(ctx)
//	claimed, err := txn.Claim(ctx, tx, req)
//	// err: as from Run. claimed.Outcome is pgonce.Replay: claimed.Decode(&result). Otherwise do the work, then:
//	err = claimed.Complete(ctx, result)
//	err = tx.Commit(ctx)
//
// A key that can be neither taken nor replayed is an error, the same as Run returns: pgonce.ErrMismatch, ErrInProgress,
// ErrFailed or ErrParked. The transaction is still usable then. After any other error it has to be rolled back.
//
// The claim is written at once. A transaction that commits without ending it leaves the key in progress, for everybody,
// until somebody settles it by hand; one that is rolled back leaves nothing.
//
// Claim and the methods of Claimed try once. The caller retries the whole transaction while Retryable says so of its
// error, that of Commit included: a serialization failure (40001) is to be expected above READ COMMITTED. If Commit does
// not answer, do the same: the next Claim finds out what became of it.
//
// Of the request, TxOptions must be empty; MaxRetries and CommitTimeout do not matter.
func Claim(ctx context.Context, tx pgx.Tx, req Request) (*Claimed, error) {
	req = req.withDefaults()
	if err := req.validate(); err != nil {
		return nil, err
	}
	if tx == nil {
		return nil, errors.New("txn: no transaction given")
	}
	if req.TxOptions != (pgx.TxOptions{}) {
		return nil, &pgonce.InvalidError{
			Code:    pgonce.CodeInvalidArgument,
			Message: "TxOptions cannot be applied to a transaction that has begun: begin it with them",
		}
	}
	answer, err := claimIn(ctx, tx, req, false)
	if err != nil {
		return nil, err
	}
	if answer.Outcome != pgonce.Fresh {
		if err := decision(req, answer); err != nil {
			return nil, err
		}
	}
	return &Claimed{
		Outcome: answer.Outcome, Attempt: answer.Attempt,
		Result: answer.Result, ContentType: value(answer.ContentType), Meta: answer.Meta,
		OmittedBytes: value(answer.OmittedBytes), FinishedAt: value(answer.FinishedAt),
		tx: tx, req: req, claimID: answer.ClaimID,
	}, nil
}

// Complete ends a fresh claim as done and stores result, encoded by the request's Codec, with the request's Meta. nil is no
// result. The operation is done when the caller's transaction commits. It returns pgonce.ErrLost if the claim is not the
// current one, because it was ended before or a savepoint of it was rolled back.
func (c *Claimed) Complete(ctx context.Context, result any) error {
	done := stored{meta: c.req.Meta}
	if result != nil {
		var err error
		if done, err = encode(c.req, result); err != nil {
			return err
		}
	}
	done.state = db.OnceClaimStateDone
	return c.settle(ctx, done)
}

// Fail ends a fresh claim as refused for good, and stores the text of cause: every duplicate is given it as a
// *pgonce.FailedError. Business writes that the refusal must not keep are the caller's to undo, by a savepoint that began
// after the claim.
func (c *Claimed) Fail(ctx context.Context, cause error) error {
	if cause == nil {
		return &pgonce.InvalidError{Code: pgonce.CodeInvalidArgument, Message: "Fail needs a cause"}
	}
	contentType := refusalType
	return c.settle(ctx, stored{
		state: db.OnceClaimStateFailed, result: []byte(cause.Error()), contentType: &contentType, meta: c.req.Meta,
	})
}

func (c *Claimed) settle(ctx context.Context, done stored) error {
	if err := c.fresh(); err != nil {
		return err
	}
	return settleIn(ctx, c.tx, c.req, db.ClaimResult{ClaimID: c.claimID, Attempt: c.Attempt}, done)
}

// Release gives a fresh claim back: when the transaction commits, the key is as if it had never been claimed. Use it if
// the transaction has other work to commit; otherwise a rollback does the same.
func (c *Claimed) Release(ctx context.Context) error {
	if err := c.fresh(); err != nil {
		return err
	}
	if c.req.Token != "" {
		return &pgonce.InvalidError{Code: pgonce.CodeInvalidArgument, Message: "a token is given back by a rollback, not by Release"}
	}
	err := db.New(c.tx).Release(ctx, db.ReleaseParams{
		Scope: c.req.Scope, Key: c.req.Key, ClaimID: c.claimID, Attempt: c.Attempt, Subject: c.req.Subject,
	})
	if err != nil {
		return fmt.Errorf("release %s: %w", c.req.key(), lost(err))
	}
	return nil
}

// fresh refuses to settle what an earlier call has done. The database would do so too, but its error would cost the caller
// the transaction.
func (c *Claimed) fresh() error {
	if c.Outcome != pgonce.Fresh {
		return fmt.Errorf("%s: %w: its outcome is %s", c.req.key(), pgonce.ErrLost, c.Outcome)
	}
	return nil
}

// Decode reads the result of a replayed operation into the value that into points to, by the request's Codec. It leaves the
// value alone if none was stored, and returns pgonce.ErrResultOmitted if it was too large for that.
func (c *Claimed) Decode(into any) error {
	if c.Outcome != pgonce.Replay {
		return fmt.Errorf("%s: nothing to decode: the outcome is %s", c.req.key(), c.Outcome)
	}
	return decode(c.req.Codec, c.req.key(), c.Result, c.ContentType, c.OmittedBytes, into)
}

// State is where a claim stands.
type State string

// States of a claim.
const (
	StateInProgress State = "in_progress" // taken and not finished
	StateDone       State = "done"        // finished, its result stored
	StateFailed     State = "failed"      // refused for good, the refusal's text stored as its result
	StateParked     State = "parked"      // needs a human
)

// Record is what is stored of a key.
type Record struct {
	Key         pgonce.Key
	State       State
	Attempt     int32
	Fingerprint []byte // nil: not compared

	Result       []byte // nil: none
	ContentType  string // of Result
	Meta         []byte // a JSON object; nil: none
	OmittedBytes int64  // size of a result that was too large to be stored

	// By the database's clock. FinishedAt is zero while the claim is not finished, LeaseUntil if it has no lease.
	ClaimedAt  time.Time
	FinishedAt time.Time
	LeaseUntil time.Time
}

// Decode reads the stored result into the value that into points to; codec is that of the request that stored it, nil for
// JSON. It leaves the value alone if no result was stored, and returns pgonce.ErrResultOmitted if it was too large for
// that. Only an operation that is done has one.
func (r Record) Decode(codec Codec, into any) error {
	if r.State != StateDone {
		return fmt.Errorf("%s: nothing to decode: the state is %s", r.Key, r.State)
	}
	if codec == nil {
		codec = JSON
	}
	return decode(codec, r.Key, r.Result, r.ContentType, r.OmittedBytes, into)
}

// Querier runs statements: *pgxpool.Pool, *pgx.Conn, pgx.Tx.
type Querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Lookup reads what is stored of a key, as q's snapshot sees it. It claims nothing and waits for nobody. It returns false
// if the key is not known: it was never claimed, its transaction has not committed, or its window is over.
func Lookup(ctx context.Context, q Querier, key pgonce.Key) (Record, bool, error) {
	if err := key.Validate(); err != nil {
		return Record{}, false, err
	}
	row, err := db.New(q).Lookup(ctx, db.LookupParams{Scope: key.Scope, Key: key.Key, Subject: key.Subject})
	if errors.Is(err, pgx.ErrNoRows) {
		return Record{}, false, nil
	}
	if err != nil {
		return Record{}, false, fmt.Errorf("look up %s: %w", key, err)
	}
	return Record{
		Key: key, State: State(row.State), Attempt: row.Attempt, Fingerprint: row.Fingerprint,
		Result: row.Result, ContentType: value(row.ContentType), Meta: row.Meta, OmittedBytes: value(row.OmittedBytes),
		ClaimedAt: row.ClaimedAt, FinishedAt: value(row.FinishedAt), LeaseUntil: value(row.LeaseUntil),
	}, true, nil
}

func decode(codec Codec, key pgonce.Key, data []byte, contentType string, omitted int64, into any) error {
	switch {
	case omitted > 0:
		return &pgonce.ResultOmittedError{Key: key, Bytes: omitted}
	case len(data) == 0 && contentType == "":
		return nil // completed without a result
	}
	if err := codec.Decode(data, contentType, into); err != nil {
		return fmt.Errorf("%s: decode stored result: %w", key, err)
	}
	return nil
}

// value is what p points to, or the zero value.
func value[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}
