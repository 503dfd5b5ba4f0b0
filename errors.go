package pgonce

import (
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Decisions that a caller can branch on with errors.Is. The typed errors below carry the data and match them.
var (
	// ErrMismatch: the key was used before with another fingerprint. Nothing was done. HTTP: 422.
	ErrMismatch = errors.New("key was used with another fingerprint")
	// ErrInProgress: another caller holds the claim and the caller did not want to wait any longer. HTTP: 409.
	ErrInProgress = errors.New("claim is in progress")
	// ErrFailed: the operation was refused for good, now or at its first call; the refusal is stored.
	ErrFailed = errors.New("operation failed finally")
	// ErrParked: the operation needs a human.
	ErrParked = errors.New("claim is parked")
	// ErrInvalidToken: the token was never issued, was issued to another subject, or has expired. HTTP: 403, without saying which.
	ErrInvalidToken = errors.New("token is not valid")
	// ErrLost: the claim is not, or no longer, the current one; nothing was changed on its behalf.
	ErrLost = errors.New("claim is lost")
	// ErrResultOmitted: the operation is done, but its result was too large to be stored.
	ErrResultOmitted = errors.New("stored result was omitted")
	// ErrOutcomeUnknown: the connection died while COMMIT was under way and the outcome could not be looked up.
	// Call again with the same key: that resolves it.
	ErrOutcomeUnknown = errors.New("outcome of commit is unknown")
)

// MismatchError says which key was used with another fingerprint. It matches ErrMismatch.
type MismatchError struct{ Key Key }

func (e *MismatchError) Error() string { return fmt.Sprintf("%s: %v", e.Key, ErrMismatch) }

// Is reports whether target is ErrMismatch.
func (e *MismatchError) Is(target error) bool { return target == ErrMismatch }

// InProgressError says which key is claimed by another caller, and when to ask again. It matches ErrInProgress.
type InProgressError struct {
	Key        Key
	RetryAfter time.Duration
}

func (e *InProgressError) Error() string {
	return fmt.Sprintf("%s: %v, ask again after %v", e.Key, ErrInProgress, e.RetryAfter)
}

// Is reports whether target is ErrInProgress.
func (e *InProgressError) Is(target error) bool { return target == ErrInProgress }

// FailedError is a stored refusal. It matches ErrFailed. At the call that made it, it also unwraps to the cause.
type FailedError struct {
	Key Key
	// Message is the text of the error that was stored.
	Message string
	// Replayed is whether an earlier call made the refusal.
	Replayed bool
	cause    error
}

// NewFailedError returns the refusal of a key for a cause, as the first call sees it.
func NewFailedError(key Key, cause error) *FailedError {
	return &FailedError{Key: key, Message: cause.Error(), cause: cause}
}

func (e *FailedError) Error() string { return fmt.Sprintf("%s: %v: %s", e.Key, ErrFailed, e.Message) }

// Is reports whether target is ErrFailed.
func (e *FailedError) Is(target error) bool { return target == ErrFailed }

// Unwrap returns the cause, nil in a replay.
func (e *FailedError) Unwrap() error { return e.cause }

// ParkedError says which key needs a human. It matches ErrParked.
type ParkedError struct {
	Key     Key
	Attempt int32
}

func (e *ParkedError) Error() string {
	return fmt.Sprintf("%s: %v after attempt %d", e.Key, ErrParked, e.Attempt)
}

// Is reports whether target is ErrParked.
func (e *ParkedError) Is(target error) bool { return target == ErrParked }

// TokenError says why a token cannot be redeemed. It matches ErrInvalidToken. Its text is the same whatever the problem, so that it
// tells an attacker nothing; log Problem.
type TokenError struct {
	Scope string
	// Problem is unknown (never issued, or forgotten after its time), foreign (issued to another subject) or expired.
	Problem string
}

func (e *TokenError) Error() string { return ErrInvalidToken.Error() }

// Is reports whether target is ErrInvalidToken.
func (e *TokenError) Is(target error) bool { return target == ErrInvalidToken }

// ResultOmittedError says that an operation is done and its result, of the given size in bytes, was not stored.
// It matches ErrResultOmitted.
type ResultOmittedError struct {
	Key   Key
	Bytes int64
}

func (e *ResultOmittedError) Error() string {
	return fmt.Sprintf("%s: done, but %v: %d bytes are more than the scope's max_result_bytes", e.Key, ErrResultOmitted, e.Bytes)
}

// Is reports whether target is ErrResultOmitted.
func (e *ResultOmittedError) Is(target error) bool { return target == ErrResultOmitted }

// SQLSTATEs of class ON, raised by the SQL functions for misuse. Expected outcomes are never raised.
const (
	CodeUnknownScope     = "ON001" // no such scope
	CodeInvalidKey       = "ON002" // key is NULL, empty or longer than 255 bytes
	CodeInvalidSubject   = "ON003" // subject is NULL, too long, or missing where the scope requires one
	CodeInvalidArgument  = "ON004" // a policy or another argument is out of range
	CodeInvalidScopeName = "ON005" // the name cannot be a scope's
	CodeScopeExists      = "ON006" // a scope of this name exists
	CodeLost             = "ON007" // the claim is not the current one
	CodeUnroutable       = "ON008" // the epoch changed too often while a call was routed: retry
	CodeNested           = "ON009" // a transaction claims its own deferred key again
	CodeOutOfStep        = "ON010" // fence and epochs are apart: run maintain
	CodeBatchTooLarge    = "ON011" // more keys than one batch may claim
	CodeScopeInUse       = "ON012" // the scope holds keys that are inside their window
)

// Code returns the SQLSTATE that err carries, or "" if it carries none.
func Code(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	var invalid *InvalidError
	if errors.As(err, &invalid) {
		return invalid.Code
	}
	return ""
}

// InvalidError is misuse that was noticed before the database was asked. Code is the SQLSTATE that it would have raised.
type InvalidError struct {
	Code    string
	Message string
}

func (e *InvalidError) Error() string { return e.Message + " (SQLSTATE " + e.Code + ")" }
