package txn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/db"
)

// Beginner begins transactions: *pgxpool.Pool, *pgxpool.Conn, *pgx.Conn, or a pgx.Tx, in which case the operation is
// nested and runs in a savepoint of it.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Result is what Run returns for an operation that is done.
type Result[T any] struct {
	// Value is what the function returned, now (Fresh) or at the first call (Replay).
	Value T
	// Outcome is pgonce.Fresh if this call did the work, pgonce.Replay if an earlier one did.
	Outcome pgonce.Outcome
	// Attempt is the fencing number of the claim that did the work.
	Attempt int32
	// FinishedAt is when a replayed operation was finished, by the database's clock; zero if Fresh.
	FinishedAt time.Time
}

// Run does fn once for the request's key: it claims the key, calls fn with the transaction, stores the value that fn
// returns, and commits, all in one transaction. A duplicate is given the stored value; fn is not called.
//
// fn must do all its work in tx and must not end it. It may be called several times: after a serialization failure (40001),
// a deadlock (40P01) or a connection lost during COMMIT that turns out not to have committed, the transaction is rolled
// back and run again, after a pause with exponential backoff and full jitter. An error that fn returns otherwise, and a
// panic, roll everything back and leave no trace, so that the operation can be tried again; wrapped by Final, it is stored
// as a refusal and replayed.
//
// The errors to expect are pgonce.ErrMismatch, ErrInProgress, ErrFailed, ErrParked, ErrResultOmitted and
// ErrOutcomeUnknown, all by errors.Is; misuse has an SQLSTATE of class ON, see pgonce.Code.
//
// Inside a transaction (db is a pgx.Tx) the operation becomes one savepoint of it and is done when the transaction commits;
// failures that call for a retry are returned, for whoever began the transaction to retry. TxOptions must be empty then.
//
// A connection that is given must not be in a transaction.
//
// Run may be called by any number of goroutines, as far as db may.
func Run[T any](ctx context.Context, db Beginner, req Request, fn func(ctx context.Context, tx pgx.Tx) (T, error)) (Result[T], error) {
	req = req.withDefaults()
	var result Result[T]
	answer, err := run(ctx, sessionsOf(db), req, func(ctx context.Context, s session) (stored, error) {
		value, err := fn(ctx, s.tx())
		if err != nil {
			return stored{}, err
		}
		result.Value = value
		return encode(req, value)
	})
	return finish(result, req, answer, err)
}

// Consume does fn once for the request's key, like Run, and stores no result: for messages, whose sender expects none. A
// failed fn leaves no mark, so a redelivery is not taken for a duplicate. The outcome is pgonce.Fresh or pgonce.Replay; in
// both cases acknowledge the message.
func Consume(ctx context.Context, db Beginner, req Request, fn func(ctx context.Context, tx pgx.Tx) error) (pgonce.Outcome, error) {
	req = req.withDefaults()
	req.done = req.Meta == nil && req.Token == ""
	answer, err := run(ctx, sessionsOf(db), req, func(ctx context.Context, s session) (stored, error) {
		return stored{meta: req.Meta}, fn(ctx, s.tx())
	})
	if err != nil {
		return "", err
	}
	return answer.Outcome, nil
}

// stored is what completion writes.
type stored struct {
	state       db.ClaimState
	result      []byte
	contentType *string
	meta        json.RawMessage // pgx would send []byte as bytea where it does not ask the server for the type
}

func encode(req Request, value any) (stored, error) {
	data, contentType, err := req.Codec.Encode(value)
	if err != nil {
		return stored{}, fmt.Errorf("encode result: %w", err)
	}
	return stored{result: data, contentType: &contentType, meta: req.Meta}, nil
}

// finish turns an answer into the caller's result.
func finish[T any](result Result[T], req Request, answer db.ClaimResult, err error) (Result[T], error) {
	if err != nil {
		return Result[T]{}, err
	}
	result.Outcome, result.Attempt = answer.Outcome, answer.Attempt
	if answer.Outcome == pgonce.Fresh {
		return result, nil
	}
	result.Value = *new(T) // that of a call which was undone
	result.FinishedAt = value(answer.FinishedAt)
	return result, decode(req.Codec, req.key(), answer.Result, value(answer.ContentType), value(answer.OmittedBytes), &result.Value)
}

// Backoff between runs of a transaction: full jitter, so uniform between zero and a cap that doubles.
const (
	backoffFirst = 5 * time.Millisecond // the mean of the first pause
	backoffMax   = 500 * time.Millisecond
)

func newBackOff() *backoff.ExponentialBackOff {
	pause := &backoff.ExponentialBackOff{
		InitialInterval: backoffFirst, MaxInterval: backoffMax, Multiplier: 2, RandomizationFactor: 1,
	}
	pause.Reset()
	return pause
}

// body is the caller's part of a transaction.
type body func(ctx context.Context, s session) (stored, error)

// run claims, calls body if the claim is fresh, settles and commits; again where that is called for.
func run(ctx context.Context, sessions sessions, req Request, body body) (db.ClaimResult, error) {
	if err := req.validate(); err != nil {
		return db.ClaimResult{}, err
	}
	pause := newBackOff()
	var unanswered commit
	for retry := 0; ; retry++ {
		answer, err := attempt(ctx, sessions, req, body, &unanswered)
		if err == nil {
			req.noteFinished()
			return answer, nil
		}
		uncertain := unanswered.claimID.Valid
		if !sessions.retry(err, uncertain) || retry >= req.MaxRetries {
			return db.ClaimResult{}, given(err, uncertain)
		}
		select {
		case <-ctx.Done():
			return db.ClaimResult{}, given(fmt.Errorf("%w while waiting to retry: %w", context.Cause(ctx), err), uncertain)
		case <-time.After(pause.NextBackOff()):
		}
	}
}

// commit is a COMMIT of this call's that was not answered: its claim (not Valid: there is none), and the refusal that it was to
// store, if any. Another claim of the key resolves it.
type commit struct {
	claimID pgtype.UUID
	refusal *finalError
}

// resolve tells an answer that this call's own COMMIT is behind from one that somebody else is.
func (c commit) resolve(req Request, answer db.ClaimResult) (db.ClaimResult, error) {
	ours := c.claimID.Valid && c.claimID == answer.ClaimID
	switch {
	case ours && answer.Outcome == pgonce.Replay:
		answer.Outcome = pgonce.Fresh
		return answer, nil
	case ours && answer.Outcome == pgonce.Failed && c.refusal != nil:
		return answer, pgonce.NewFailedError(req.key(), c.refusal.err)
	}
	return answer, decision(req, answer)
}

// given is the error to return at last. While a COMMIT of ours is unanswered nothing else is certain either, except an
// answer about the key itself.
func given(err error, uncertain bool) error {
	if !uncertain || errors.Is(err, pgonce.ErrOutcomeUnknown) || isDecision(err) {
		return err
	}
	return fmt.Errorf("%w: %w", pgonce.ErrOutcomeUnknown, err)
}

// attempt runs the transaction once.
func attempt(ctx context.Context, sessions sessions, req Request, body body, unanswered *commit) (db.ClaimResult, error) {
	if ctx.Err() != nil { // before pgx closes a connection over it
		return db.ClaimResult{}, context.Cause(ctx)
	}
	s, err := sessions.open(ctx)
	if err != nil {
		return db.ClaimResult{}, err
	}
	defer s.close() // rolls back what is still open, also when body panics

	answer, err := s.claim(ctx, req)
	if err != nil {
		return db.ClaimResult{}, err
	}
	if answer.Outcome != pgonce.Fresh {
		return unanswered.resolve(req, answer)
	}
	*unanswered = commit{} // it did not take effect, or the key would not be free
	done, err := body(ctx, s)
	var refusal *finalError
	if errors.As(err, &refusal) {
		return refuse(ctx, s, req, refusal, unanswered)
	}
	if err != nil {
		return db.ClaimResult{}, err
	}
	done.state = db.OnceClaimStateDone
	return answer, settle(ctx, s, req, answer, done, nil, unanswered)
}

// refuse undoes what the function did and stores its refusal, in a transaction of its own.
func refuse(ctx context.Context, s session, req Request, refusal *finalError, unanswered *commit) (db.ClaimResult, error) {
	if err := s.rollback(ctx); err != nil {
		return db.ClaimResult{}, errors.Join(fmt.Errorf("roll back: %w", err), refusal.err)
	}
	req.done = false
	answer, err := s.claim(ctx, req)
	if err != nil {
		return db.ClaimResult{}, errors.Join(fmt.Errorf("claim for the refusal: %w", err), refusal.err)
	}
	if answer.Outcome != pgonce.Fresh { // somebody came in between
		return answer, decision(req, answer)
	}
	contentType := refusalType
	err = settle(ctx, s, req, answer, stored{
		state: db.OnceClaimStateFailed, result: []byte(refusal.err.Error()), contentType: &contentType, meta: req.Meta,
	}, refusal, unanswered)
	if err != nil {
		return db.ClaimResult{}, err
	}
	return db.ClaimResult{}, pgonce.NewFailedError(req.key(), refusal.err)
}

// settle completes and commits. The work is done by now, so the end of the caller's context must not undo it.
func settle(ctx context.Context, s session, req Request, claim db.ClaimResult, done stored, refusal *finalError, unanswered *commit) error {
	err := s.settle(context.WithoutCancel(ctx), req, claim, done)
	if _, ok := err.(*unansweredError); ok { // as the session returned it: an error of the function may wrap another's
		*unanswered = commit{claim.ClaimID, refusal}
	}
	return err
}
