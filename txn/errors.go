package txn

import (
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/db"
)

// refusalType is the content type of a stored refusal: the text of its error.
const refusalType = "text/plain; charset=utf-8"

// SQLSTATEs of PostgreSQL that matter here.
const (
	codeSerializationFailure = "40001"
	codeDeadlockDetected     = "40P01"
	codeUndefinedFunction    = "42883"
)

type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }
func (e *finalError) Unwrap() error { return e.err }

// Final marks an error as a refusal that stays: Run and Consume roll back what the function did, store the error's text,
// and give it to every duplicate as a *pgonce.FailedError, without calling the function again. Use it for what a retry
// cannot change: a card that is declined, a coupon that has expired. Final(nil) is nil.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return &finalError{err}
}

// unansweredError says that the connection died while completion and COMMIT were under way.
type unansweredError struct{ err error }

func (e *unansweredError) Error() string {
	return fmt.Sprintf("%v: %v", pgonce.ErrOutcomeUnknown, e.err)
}
func (e *unansweredError) Unwrap() []error { return []error{pgonce.ErrOutcomeUnknown, e.err} }

// mayHaveCommitted reports whether err left it open if a COMMIT on conn was done: the connection died and the server said nothing.
func mayHaveCommitted(conn *pgx.Conn, err error) bool {
	return conn != nil && conn.IsClosed() && pgonce.Code(err) == "" && !pgconn.SafeToRetry(err)
}

// decision turns an answer other than fresh into the caller's error; nil for a replay.
func decision(req Request, answer db.ClaimResult) error {
	key := req.key()
	switch answer.Outcome {
	case pgonce.Replay:
		return nil
	case pgonce.InProgress:
		after := time.Second
		if answer.RetryAfter != nil {
			after = *answer.RetryAfter
		}
		return &pgonce.InProgressError{Key: key, RetryAfter: after}
	case pgonce.Mismatch:
		return &pgonce.MismatchError{Key: key}
	case pgonce.Failed:
		return &pgonce.FailedError{Key: key, Message: string(answer.Result), Replayed: true}
	case outcomeUnknown, outcomeForeign, outcomeExpired:
		return &pgonce.TokenError{Scope: req.Scope, Problem: string(answer.Outcome)}
	case pgonce.Parked:
		return &pgonce.ParkedError{Key: key, Attempt: answer.Attempt}
	default:
		return fmt.Errorf("%s: unknown outcome %q: the schema is newer than this library", key, answer.Outcome)
	}
}

// isDecision reports whether err says what the database decided about the key.
func isDecision(err error) bool {
	for _, target := range []error{pgonce.ErrMismatch, pgonce.ErrInProgress, pgonce.ErrFailed, pgonce.ErrParked, pgonce.ErrInvalidToken} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// Retryable reports whether running the whole transaction again may succeed: a serialization failure, a deadlock, or a
// claim that could not be routed. Run retries these itself; callers of Claim do it themselves.
func Retryable(err error) bool {
	if errors.Is(err, pgonce.ErrFailed) { // a refusal stays, whatever caused it
		return false
	}
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return false
	}
	switch pgErr.Code {
	case codeSerializationFailure, codeDeadlockDetected, pgonce.CodeUnroutable:
		return true
	}
	return false
}

// lost gives an error with SQLSTATE ON007 the identity of pgonce.ErrLost.
func lost(err error) error {
	if pgonce.Code(err) == pgonce.CodeLost {
		return fmt.Errorf("%w: %w", pgonce.ErrLost, err)
	}
	return err
}
