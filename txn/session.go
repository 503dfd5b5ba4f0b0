package txn

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/db"
)

// session is one transaction from claim to settlement. After rollback the next claim begins another.
type session interface {
	// claim begins a transaction and claims the key.
	claim(ctx context.Context, req Request) (db.ClaimResult, error)
	// tx is the transaction for the caller's function.
	tx() pgx.Tx
	// settle ends the claim and commits, within the request's CommitTimeout. An *unansweredError says that COMMIT may have been done.
	settle(ctx context.Context, req Request, claim db.ClaimResult, done stored) error
	// rollback ends the transaction, undone.
	rollback(ctx context.Context) error
	// close rolls back what is still open and gives back the connection, possibly behind the caller's back.
	close()
}

// sessions opens sessions on one kind of database handle.
type sessions interface {
	open(ctx context.Context) (session, error)
	// retry reports whether another session may do better; uncertain is whether a COMMIT was not answered.
	retry(err error, uncertain bool) bool
}

func sessionsOf(beginner Beginner) sessions {
	switch b := beginner.(type) {
	case *pgxpool.Pool:
		return poolSessions{b}
	case *pgxpool.Conn:
		return connSessions{b.Conn()}
	case *pgx.Conn:
		return connSessions{b}
	default:
		return beginnerSessions{b}
	}
}

// beginnerSessions are those of a pgx.Tx, where they are savepoints, and of wrappers around a pool or connection.
type beginnerSessions struct{ Beginner }

func (b beginnerSessions) open(context.Context) (session, error) {
	if b.Beginner == nil {
		return nil, errors.New("txn: no database given")
	}
	return &beginnerSession{db: b.Beginner}, nil
}

func (b beginnerSessions) retry(err error, _ bool) bool {
	_, nested := b.Beginner.(pgx.Tx)
	return !nested && Retryable(err)
}

// beginnerSession works through Begin and Commit alone, one statement after the other.
type beginnerSession struct {
	db      Beginner
	current pgx.Tx
}

func (s *beginnerSession) claim(ctx context.Context, req Request) (answer db.ClaimResult, err error) {
	if req.TxOptions != (pgx.TxOptions{}) {
		return answer, &pgonce.InvalidError{
			Code:    pgonce.CodeInvalidArgument,
			Message: fmt.Sprintf("TxOptions cannot be applied to %T: begin the transaction with them yourself", s.db),
		}
	}
	if s.current, err = s.db.Begin(ctx); err != nil {
		return answer, fmt.Errorf("begin: %w", err)
	}
	return claimIn(ctx, s.current, req, true)
}

func (s *beginnerSession) tx() pgx.Tx { return &transaction{Tx: s.current} }

func (s *beginnerSession) settle(ctx context.Context, req Request, claim db.ClaimResult, done stored) error {
	ctx, cancel := context.WithTimeout(ctx, req.CommitTimeout)
	defer cancel()
	if err := settleIn(ctx, s.current, req, claim, done); err != nil {
		return err
	}
	conn := s.current.Conn()
	err := s.current.Commit(ctx)
	if err == nil {
		s.current = nil
	}
	if _, nested := s.db.(pgx.Tx); err != nil && !nested && mayHaveCommitted(conn, err) {
		return &unansweredError{err}
	}
	return err
}

func (s *beginnerSession) rollback(ctx context.Context) error {
	tx := s.current
	s.current = nil
	return tx.Rollback(ctx)
}

func (s *beginnerSession) close() {
	if s.current == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTimeout)
	defer cancel()
	_ = s.rollback(ctx) // pgx closes a connection whose rollback fails
}

// claimIn claims by the SQL interface, in a transaction that is there.
func claimIn(ctx context.Context, tx db.DBTX, req Request, deferWrite bool) (db.ClaimResult, error) {
	if req.Token != "" {
		return redeemIn(ctx, tx, req)
	}
	answer, err := db.New(tx).Claim(ctx, db.ClaimParams{
		Scope: req.Scope, Key: req.Key, Fingerprint: req.Fingerprint, Subject: req.Subject,
		Wait: req.wait(ctx), DeferWrite: deferWrite, Done: req.done,
	})
	if err != nil {
		return answer, fmt.Errorf("claim %s: %w", req.key(), err)
	}
	return answer, nil
}

// settleIn settles by the SQL interface.
func settleIn(ctx context.Context, tx db.DBTX, req Request, claim db.ClaimResult, done stored) error {
	if req.done {
		return nil // the claim wrote the finished row
	}
	params := db.CompleteParams{
		Scope: req.Scope, Key: req.Key, ClaimID: claim.ClaimID, Attempt: claim.Attempt, Result: done.result,
		ContentType: done.contentType, Meta: done.meta, Subject: req.Subject, Fingerprint: req.Fingerprint,
	}
	var err error
	if done.state == db.OnceClaimStateFailed {
		err = db.New(tx).Fail(ctx, db.FailParams(params))
	} else {
		err = db.New(tx).Complete(ctx, params)
	}
	if err != nil {
		return fmt.Errorf("complete %s: %w", req.key(), lost(err))
	}
	return nil
}
