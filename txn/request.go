package txn

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgonce/pgonce"
)

// Defaults of a Request.
const (
	DefaultMaxRetries    = 10
	DefaultCommitTimeout = 30 * time.Second
)

// Request says what is to be done once, and how patiently. Only Scope and Key are needed.
type Request struct {
	// Scope, Subject and Key name the operation; see pgonce.Key.
	Scope   string
	Subject string
	Key     string

	// Fingerprint is a digest of the request (see package fingerprint). A duplicate with another one is a mismatch. nil
	// is not compared.
	Fingerprint []byte

	// Token has the operation redeem a token of IssueToken, in place of claiming a Key; Subject is who redeems it. A second
	// redemption is a duplicate. A token that is not valid is a *pgonce.TokenError.
	Token string

	// Strict answers pgonce.ErrInProgress at once if another transaction holds the key. The default is to wait for it.
	Strict bool
	// Wait bounds that wait; zero means as long as the context. A deadline of the context bounds it too: then the answer
	// is pgonce.ErrInProgress, shortly before the deadline.
	Wait time.Duration

	// Lease is how long a claim of RunLeased counts unless it is renewed; zero means the scope's lease.
	Lease time.Duration

	// TxOptions of the transaction. Read-only is refused.
	TxOptions pgx.TxOptions

	// Codec stores and restores results. nil is JSON.
	Codec Codec
	// Meta is small metadata stored beside the result, a JSON object. nil for none.
	Meta []byte

	// MaxRetries bounds how often the transaction is run again after a serialization failure, a deadlock or a lost
	// connection during COMMIT. Zero means DefaultMaxRetries, negative none.
	MaxRetries int
	// CommitTimeout bounds completion and COMMIT, which go on when the context ends after the function has returned.
	// Zero means DefaultCommitTimeout.
	CommitTimeout time.Duration

	// redeemer is whom the token must have been issued to, owner the digest of it.
	redeemer string
	owner    []byte
	// done has the claim write the row finished: there is no result to wait for.
	done bool
}

func (r Request) key() pgonce.Key { return pgonce.Key{Scope: r.Scope, Subject: r.Subject, Key: r.Key} }

func (r Request) withDefaults() Request {
	if r.Codec == nil {
		r.Codec = JSON
	}
	if r.MaxRetries == 0 {
		r.MaxRetries = DefaultMaxRetries
	}
	if r.CommitTimeout == 0 {
		r.CommitTimeout = DefaultCommitTimeout
	}
	if r.Token != "" && r.Key == "" && r.Fingerprint == nil {
		// As once.redeem_token has it: the token is a row under an empty subject, with the digest of its own.
		owner := sha256.Sum256([]byte(r.Subject))
		r.Key, r.Subject, r.redeemer, r.owner = tokenKey(r.Token), "", r.Subject, owner[:]
	}
	return r
}

func (r Request) validate() error {
	invalid := func(message string) error {
		return &pgonce.InvalidError{Code: pgonce.CodeInvalidArgument, Message: message}
	}
	if r.Token != "" && r.owner == nil {
		return invalid("Token excludes Key and Fingerprint")
	}
	if err := r.key().Validate(); err != nil {
		return err
	}
	switch {
	case r.Wait < 0:
		return invalid("Wait is negative")
	case r.Lease < 0:
		return invalid("Lease is negative")
	case r.CommitTimeout < 0:
		return invalid("CommitTimeout is negative")
	case len(r.Meta) > 0 && !json.Valid(r.Meta):
		return invalid("Meta is not valid JSON")
	case r.Strict && r.Wait > 0:
		return invalid("Strict and Wait exclude each other")
	case r.TxOptions.AccessMode == pgx.ReadOnly:
		return invalid("TxOptions.AccessMode is read only: a claim writes")
	case r.TxOptions.BeginQuery != "" || r.TxOptions.CommitQuery != "":
		return invalid("TxOptions.BeginQuery and CommitQuery are not supported")
	}
	return nil
}

// deadlineMargin is how much earlier than the context's deadline a wait ends, at least (a tenth of it otherwise), so that the
// answer still arrives.
const deadlineMargin = 50 * time.Millisecond

// wait returns the wait to ask the database for: nil for no bound, zero for none at all.
func (r Request) wait(ctx context.Context) *time.Duration {
	if r.Strict {
		return new(time.Duration)
	}
	wait := r.Wait
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		left = max(left-max(deadlineMargin, left/10), time.Millisecond)
		if wait == 0 || left < wait {
			wait = left
		}
	}
	if wait == 0 {
		return nil
	}
	return &wait
}
