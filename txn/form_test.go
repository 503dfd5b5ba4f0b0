package txn_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/txn"
)

// form is a way to do something once: claim, work, completion and COMMIT. Tests of what all of them promise range over forms.
type form struct {
	name string
	// keeps is whether it stores the value that the work returns.
	keeps bool
	// do begins a transaction on db (or a savepoint, if db is one) at the request's isolation level. Expected outcomes are
	// answers, never errors, and leave the transaction good for a COMMIT.
	do func(ctx context.Context, db txn.Beginner, req txn.Request, work func(context.Context, pgx.Tx) (string, error)) (answer, error)
}

// answer is what an operation's caller learns.
type answer struct {
	Outcome pgonce.Outcome
	Value   string // as the work returned it, or as it was stored
}

const claimArguments = "(@scope, @key, p_fingerprint => @fingerprint, p_subject => @subject, p_wait => @wait"

var forms = []form{
	sqlForm("plain", "claim"+claimArguments+")", true),
	sqlForm("deferred", "claim"+claimArguments+", p_defer => true)", true),
	sqlForm("done", "claim"+claimArguments+", p_done => true)", false),
	sqlForm("batch", "claim_many(@scope, ARRAY[@key], ARRAY[@fingerprint]::bytea[], p_subject => @subject, p_wait => @wait)", true),
	{"Run", true, func(ctx context.Context, db txn.Beginner, req txn.Request, work func(context.Context, pgx.Tx) (string, error)) (answer, error) {
		result, err := txn.Run(ctx, db, req, work)
		return answered(result.Outcome, result.Value, err)
	}},
	{"Consume", false, func(ctx context.Context, db txn.Beginner, req txn.Request, work func(context.Context, pgx.Tx) (string, error)) (answer, error) {
		outcome, err := txn.Consume(ctx, db, req, func(ctx context.Context, tx pgx.Tx) error {
			_, err := work(ctx, tx)
			return err
		})
		return answered(outcome, "", err)
	}},
}

// answered turns the errors that stand for outcomes into them.
func answered(outcome pgonce.Outcome, value string, err error) (answer, error) {
	for decision, outcome := range map[error]pgonce.Outcome{
		pgonce.ErrInProgress: pgonce.InProgress, pgonce.ErrMismatch: pgonce.Mismatch,
		pgonce.ErrFailed: pgonce.Failed, pgonce.ErrParked: pgonce.Parked,
	} {
		if errors.Is(err, decision) {
			return answer{outcome, value}, nil
		}
	}
	return answer{outcome, value}, err
}

func sqlForm(name, call string, complete bool) form {
	return form{name, complete, func(ctx context.Context, db txn.Beginner, req txn.Request, work func(context.Context, pgx.Tx) (string, error)) (a answer, err error) {
		tx, err := beginOn(ctx, db, req.TxOptions)
		if err != nil {
			return a, err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		args := pgx.NamedArgs{"scope": req.Scope, "key": req.Key, "subject": req.Subject, "fingerprint": req.Fingerprint, "wait": nil}
		if req.Strict || req.Wait > 0 {
			args["wait"] = req.Wait
		}
		rows, err := tx.Query(ctx, "SELECT outcome::text, attempt, claim_id::text, result FROM once."+call, args)
		if err != nil {
			return a, err
		}
		type row struct {
			Outcome pgonce.Outcome
			Attempt int32
			ClaimID *string
			Result  []byte
		}
		got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
		if err != nil {
			return a, err
		}
		if len(got) != 1 {
			return a, fmt.Errorf("%d outcome rows", len(got))
		}
		a.Outcome = got[0].Outcome
		if a.Outcome != pgonce.Fresh {
			a.Value = string(got[0].Result)
			if got[0].Result != nil && a.Outcome == pgonce.Replay {
				if err := json.Unmarshal(got[0].Result, &a.Value); err != nil {
					return a, err
				}
			}
			return a, tx.Commit(ctx)
		}
		if a.Value, err = work(ctx, tx); err != nil {
			return a, err
		}
		if complete {
			args["id"], args["attempt"] = got[0].ClaimID, got[0].Attempt
			if args["result"], err = json.Marshal(a.Value); err != nil {
				return a, err
			}
			_, err = tx.Exec(ctx, `SELECT once.complete(@scope, @key, @id, @attempt, @result, 'application/json',
				p_subject => @subject, p_fingerprint => @fingerprint)`, args)
			if err != nil {
				return a, err
			}
		}
		return a, tx.Commit(ctx)
	}}
}

func beginOn(ctx context.Context, db txn.Beginner, options pgx.TxOptions) (pgx.Tx, error) {
	if db, ok := db.(interface {
		BeginTx(context.Context, pgx.TxOptions) (pgx.Tx, error)
	}); ok {
		return db.BeginTx(ctx, options)
	}
	return db.Begin(ctx)
}

// again is do, in a new transaction after each conflict, as every caller above READ COMMITTED has to. A conflict at READ
// COMMITTED is returned.
func (f form) again(ctx context.Context, db txn.Beginner, req txn.Request, work func(context.Context, pgx.Tx) (string, error)) (answer, error) {
	for {
		a, err := f.do(ctx, db, req, work)
		if err == nil || req.TxOptions.IsoLevel == pgx.ReadCommitted || !txn.Retryable(err) {
			return a, err
		}
	}
}

// stored is the value that duplicates of f's operation are given.
func (f form) stored(value string) string {
	if f.keeps {
		return value
	}
	return ""
}

// must is a call of f that has to come to an outcome.
func (f form) must(t testing.TB, db txn.Beginner, req txn.Request, work func(context.Context, pgx.Tx) (string, error)) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a, err := f.again(ctx, db, req, work)
	require.NoError(t, err, f.name)
	return a
}

// beginAlone starts a transaction on a connection of its own, so that however many of them leave the pool to others.
func (s *shop) beginAlone(level pgx.TxIsoLevel) pgx.Tx {
	s.t.Helper()
	tx, err := s.conn().BeginTx(context.Background(), pgx.TxOptions{IsoLevel: level})
	require.NoError(s.t, err)
	return tx
}

// ordering is work that adds an order for the key and returns a value of its own.
func ordering(ref string) func(context.Context, pgx.Tx) (string, error) {
	return func(ctx context.Context, tx pgx.Tx) (string, error) {
		_, err := order(ref)(ctx, tx)
		return "value of " + ref, err
	}
}

// inFlight starts an operation of f and returns when it is in its work. finish lets it go on and commit.
func (s *shop) inFlight(f form, req txn.Request) (finish func()) {
	s.t.Helper()
	working, goOn := make(chan struct{}), make(chan struct{})
	s.t.Cleanup(func() {
		select {
		case <-goOn:
		default:
			close(goOn)
		}
	})
	conn := s.conn()
	done := async(func() error {
		_, err := f.do(context.Background(), conn, req, func(ctx context.Context, tx pgx.Tx) (string, error) {
			close(working)
			<-goOn
			return ordering(req.Key)(ctx, tx)
		})
		return err
	})
	select {
	case <-working:
	case err := <-done:
		s.t.Fatalf("%s did no work: %v", f.name, err)
	case <-time.After(patience):
		s.t.Fatal("waited in vain")
	}
	return func() {
		s.t.Helper()
		close(goOn)
		require.NoError(s.t, receive(s.t, done), f.name)
		require.NoError(s.t, conn.Close(context.Background()))
	}
}

// requireEachOnce says that there are as many orders as keys, one for each.
func (s *shop) requireEachOnce(keys int) {
	s.t.Helper()
	require.Equal(s.t, keys, s.orders(), "orders")
	require.Equal(s.t, keys, s.count("(SELECT DISTINCT ref FROM public.orders) AS o"), "orders of different keys")
	require.Equal(s.t, keys, s.count("once_data.orders WHERE state = 'done'"), "keys done")
}
