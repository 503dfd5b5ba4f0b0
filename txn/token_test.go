package txn_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/internal/pgproxy"
	"github.com/pgonce/pgonce/txn"
)

// newForm is a shop whose scope issues tokens, and a request with a token of Ann's.
func newForm(t *testing.T) (*shop, func() txn.Request) {
	t.Helper()
	s := newShop(t)
	s.exec("SELECT once.alter_scope('orders', p_session_length => '12 hours')")
	return s, func() txn.Request {
		t.Helper()
		token, err := txn.IssueToken(t.Context(), s.Pool, "orders", "ann", 0)
		require.NoError(t, err)
		return txn.Request{Scope: "orders", Subject: "ann", Token: token}
	}
}

func TestATokenIsRedeemedOnce(t *testing.T) {
	t.Parallel()
	s, issue := newForm(t)
	for range 3 { // the dispatcher's way, then by the epoch, then by prepared statements
		before := s.orders()
		req := issue()
		_, err := txn.Run(t.Context(), s.Pool, req, func(ctx context.Context, tx pgx.Tx) (int64, error) {
			_, err := order("a")(ctx, tx)
			return 0, errors.Join(err, errBusiness)
		})
		require.ErrorIs(t, err, errBusiness)
		require.Equal(t, before, s.orders())

		first, err := txn.Run(t.Context(), s.Pool, req, order("a"))
		require.NoError(t, err, "a submission that failed left the token as it was")
		require.Equal(t, pgonce.Fresh, first.Outcome)
		require.EqualValues(t, 1, first.Attempt)
		second, err := txn.Run(t.Context(), s.Pool, req, never[int64](t))
		require.NoError(t, err)
		require.Equal(t, pgonce.Replay, second.Outcome)
		require.Equal(t, first.Value, second.Value)
		require.Equal(t, before+1, s.orders())
	}
}

func TestADoubleClick(t *testing.T) {
	t.Parallel()
	s, issue := newForm(t)
	req := issue()
	const clicks = 6
	var answers []<-chan txn.Result[int64]
	for i := range clicks {
		req := req
		if i%3 == 2 {
			req.TxOptions.IsoLevel = pgx.Serializable
		}
		answers = append(answers, async(func() txn.Result[int64] {
			result, err := txn.Run(context.Background(), s.Pool, req, order("a"))
			if err != nil {
				t.Error(err)
			}
			return result
		}))
	}
	fresh := 0
	for _, answer := range answers {
		result := receive(t, answer)
		require.EqualValues(t, result.Value, s.count("public.orders"), "the only order")
		if result.Outcome == pgonce.Fresh {
			fresh++
		}
	}
	require.Equal(t, 1, fresh)
}

func TestARefusalOfATokenStays(t *testing.T) {
	t.Parallel()
	s, issue := newForm(t)
	req := issue()
	for _, replayed := range []bool{false, true} {
		_, err := txn.Run(t.Context(), s.Pool, req, func(ctx context.Context, tx pgx.Tx) (int64, error) {
			_, err := order("a")(ctx, tx)
			return 0, errors.Join(err, txn.Final(errBusiness))
		})
		var failed *pgonce.FailedError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, replayed, failed.Replayed)
	}
	require.Zero(t, s.orders())
}

// Whoever tries tokens learns nothing; the server knows.
func TestTokensThatAreNotValid(t *testing.T) {
	t.Parallel()
	s, issue := newForm(t)
	foreign, expired, used := issue(), issue(), issue()
	foreign.Subject = "bob"
	s.exec("UPDATE once_data.orders SET lease_until = clock_timestamp() WHERE key = once.token_key('" + expired.Token + "')")
	_, err := txn.Run(t.Context(), s.Pool, used, order("a"))
	require.NoError(t, err)
	used.Subject = "bob"
	for problem, req := range map[string]txn.Request{
		"foreign": foreign, "expired": expired,
		"unknown": {Scope: "orders", Subject: "ann", Token: "made up"},
	} {
		for range 2 {
			_, err := txn.Run(t.Context(), s.Pool, req, never[int64](t))
			require.ErrorIs(t, err, pgonce.ErrInvalidToken)
			require.EqualError(t, err, "token is not valid")
			var tokenErr *pgonce.TokenError
			require.ErrorAs(t, err, &tokenErr)
			require.Equal(t, pgonce.TokenError{Scope: "orders", Problem: problem}, *tokenErr)
		}
	}
	_, err = txn.Run(t.Context(), s.Pool, used, never[int64](t))
	require.EqualError(t, err, "token is not valid", "another's result is not given away")
	require.Equal(t, 1, s.orders())
}

func TestEveryWayToRedeem(t *testing.T) {
	t.Parallel()
	s, issue := newForm(t)
	twice := func(name string, redeem func(req txn.Request) (pgonce.Outcome, error)) {
		req := issue()
		for _, want := range []pgonce.Outcome{pgonce.Fresh, pgonce.Replay} {
			outcome, err := redeem(req)
			require.NoError(t, err, name)
			require.Equal(t, want, outcome, name)
		}
	}
	twice("Consume", func(req txn.Request) (pgonce.Outcome, error) {
		return txn.Consume(t.Context(), s.Pool, req, func(ctx context.Context, tx pgx.Tx) error {
			_, err := order("Consume")(ctx, tx)
			return err
		})
	})
	db := openSQL(t, s.URL)
	twice("RunSQL", func(req txn.Request) (pgonce.Outcome, error) {
		result, err := txn.RunSQL(t.Context(), db, req, func(ctx context.Context, tx *sql.Tx) (int64, error) {
			return orderSQL("RunSQL")(ctx, tx)
		})
		return result.Outcome, err
	})
	twice("nested", func(req txn.Request) (outcome pgonce.Outcome, err error) {
		err = pgx.BeginFunc(t.Context(), s.Pool, func(tx pgx.Tx) error {
			result, err := txn.Run(t.Context(), tx, req, order("nested"))
			outcome = result.Outcome
			return err
		})
		return outcome, err
	})
	twice("Claim", func(req txn.Request) (outcome pgonce.Outcome, err error) {
		err = pgx.BeginFunc(t.Context(), s.Pool, func(tx pgx.Tx) error {
			claimed, err := txn.Claim(t.Context(), tx, req)
			if err != nil {
				return err
			}
			if outcome = claimed.Outcome; outcome == pgonce.Replay {
				return nil
			}
			require.ErrorContains(t, claimed.Release(t.Context()), "rollback")
			id, err := order("Claim")(t.Context(), tx)
			if err != nil {
				return err
			}
			return claimed.Complete(t.Context(), id)
		})
		return outcome, err
	})
	require.Equal(t, 4, s.orders())
}

func TestRequestsWithATokenThatAreRefused(t *testing.T) {
	t.Parallel()
	s, issue := newForm(t)
	req := issue()
	withKey, withFingerprint, without := req, req, req
	withKey.Key, withFingerprint.Fingerprint, without.Token = "k", []byte("f"), ""
	for code, requests := range map[string][]txn.Request{
		pgonce.CodeInvalidArgument: {withKey, withFingerprint},
		pgonce.CodeInvalidKey:      {without},
	} {
		for _, req := range requests {
			_, err := txn.Run(t.Context(), s.Pool, req, never[int64](t))
			require.Equal(t, code, pgonce.Code(err), err)
		}
	}
	_, err := txn.RunLeased(t.Context(), s.Pool, req, func(context.Context, *txn.Lease) (int, error) {
		t.Error("called")
		return 0, nil
	}, nil)
	require.Equal(t, pgonce.CodeInvalidArgument, pgonce.Code(err), err)
	for _, c := range []struct {
		scope, subject string
		ttl            time.Duration
		code           string
	}{
		{"orders", "ann", time.Hour, pgonce.CodeInvalidArgument}, // shorter than a session
		{"orders", "ann", -time.Hour, pgonce.CodeInvalidArgument},
		{"nowhere", "ann", 0, pgonce.CodeUnknownScope},
		{"", "ann", 0, pgonce.CodeUnknownScope},
		{"orders", "a\x00", 0, pgonce.CodeInvalidSubject},
	} {
		_, err := txn.IssueToken(t.Context(), s.Pool, c.scope, c.subject, c.ttl)
		require.Equal(t, c.code, pgonce.Code(err), err)
	}
}

func TestATokenWhoseCommitWasLost(t *testing.T) {
	t.Parallel()
	s, issue := newForm(t)
	proxy, url := s.throughProxy()
	for when, calls := range map[pgproxy.When]int{pgproxy.BeforeServer: 2, pgproxy.AfterServer: 1} {
		pool := openPool(t, url, nil)
		for range 2 { // by the dispatcher, and by the epoch
			req, n, before := issue(), 0, s.orders()
			proxy.CutCommit(when)
			result, err := txn.Run(t.Context(), pool, req, func(ctx context.Context, tx pgx.Tx) (int64, error) {
				n++
				return order("a")(ctx, tx)
			})
			require.NoError(t, err)
			require.Equal(t, pgonce.Fresh, result.Outcome)
			require.Equal(t, calls, n)
			require.Equal(t, before+1, s.orders())
		}
	}
}
