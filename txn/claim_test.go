package txn_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/txn"
)

// begin starts a transaction of the test's own.
func (s *shop) begin(options pgx.TxOptions) pgx.Tx {
	s.t.Helper()
	tx, err := s.Pool.BeginTx(context.Background(), options)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// claim is Claim in a transaction of its own.
func (s *shop) claim(req txn.Request) (pgx.Tx, *txn.Claimed) {
	s.t.Helper()
	tx := s.begin(pgx.TxOptions{})
	claimed, err := txn.Claim(context.Background(), tx, req)
	require.NoError(s.t, err)
	return tx, claimed
}

// eachIsolation runs a test at the three levels that PostgreSQL tells apart.
func eachIsolation(t *testing.T, test func(t *testing.T, s *shop, options pgx.TxOptions)) {
	t.Helper()
	all := newShop(t)
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			test(t, all.again(t), pgx.TxOptions{IsoLevel: level})
		})
	}
}

func TestClaimAndComplete(t *testing.T) {
	t.Parallel()
	eachIsolation(t, func(t *testing.T, s *shop, options pgx.TxOptions) {
		ctx := t.Context()
		req := request("k")
		req.Fingerprint, req.Meta = []byte{7}, []byte(`{"a": 1}`)
		tx := s.begin(options)
		claimed, err := txn.Claim(ctx, tx, req)
		require.NoError(t, err)
		require.Equal(t, pgonce.Fresh, claimed.Outcome)
		require.Equal(t, int32(1), claimed.Attempt)
		require.Error(t, claimed.Decode(new(int64)), "there is nothing to decode")
		id, err := order("a")(ctx, tx)
		require.NoError(t, err)
		require.NoError(t, claimed.Complete(ctx, id))
		s.requireNothing()
		require.NoError(t, tx.Commit(ctx))
		s.requireOnce()

		_, again := s.claim(req)
		require.Equal(t, pgonce.Replay, again.Outcome)
		require.Equal(t, int32(1), again.Attempt)
		require.Equal(t, "1", string(again.Result))
		require.Equal(t, "application/json", again.ContentType)
		require.JSONEq(t, `{"a": 1}`, string(again.Meta))
		require.WithinDuration(t, time.Now(), again.FinishedAt, time.Minute)
		var replayed int64
		require.NoError(t, again.Decode(&replayed))
		require.Equal(t, id, replayed)

		// It is the same operation for Run.
		result, err := txn.Run(ctx, s.Pool, req, never[int64](t))
		require.NoError(t, err)
		require.Equal(t, pgonce.Replay, result.Outcome)
		require.Equal(t, id, result.Value)
	})
}

func TestClaimThatIsRolledBackLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for range 2 {
		tx, claimed := s.claim(request("k"))
		require.Equal(t, pgonce.Fresh, claimed.Outcome)
		require.NoError(t, claimed.Complete(t.Context(), 1))
		require.NoError(t, tx.Rollback(t.Context()))
		s.requireNothing()
	}
}

func TestClaimThatIsNeverEndedStaysInProgress(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	tx, _ := s.claim(request("k"))
	require.NoError(t, tx.Commit(t.Context()))
	_, err := txn.Run(t.Context(), s.Pool, request("k"), never[int64](t))
	require.ErrorIs(t, err, pgonce.ErrInProgress)
	record, found, err := txn.Lookup(t.Context(), s.Pool, pgonce.Key{Scope: "orders", Key: "k"})
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, txn.StateInProgress, record.State)
	require.Zero(t, record.FinishedAt)
	require.Error(t, record.Decode(nil, new(int)))
}

func TestClaimCompletedWithoutAResult(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	tx, claimed := s.claim(request("k"))
	require.NoError(t, claimed.Complete(t.Context(), nil))
	require.NoError(t, tx.Commit(t.Context()))
	_, again := s.claim(request("k"))
	require.Equal(t, pgonce.Replay, again.Outcome)
	require.Nil(t, again.Result)
	value := 42
	require.NoError(t, again.Decode(&value))
	require.Equal(t, 42, value)
}

func TestClaimFail(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx := t.Context()
	tx, claimed := s.claim(request("k"))
	require.Error(t, claimed.Fail(ctx, nil))
	// The business is undone by a savepoint, the refusal stays.
	require.ErrorIs(t, pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		_, err := order("undone")(ctx, tx)
		require.NoError(t, err)
		return errBusiness
	}), errBusiness)
	require.NoError(t, claimed.Fail(ctx, errBusiness))
	require.NoError(t, tx.Commit(ctx))
	require.Zero(t, s.orders())

	_, err := txn.Claim(ctx, s.begin(pgx.TxOptions{}), request("k"))
	var failed *pgonce.FailedError
	require.ErrorAs(t, err, &failed)
	require.True(t, failed.Replayed)
	require.Equal(t, errBusiness.Error(), failed.Message)
	_, err = txn.Run(ctx, s.Pool, request("k"), never[int64](t))
	require.ErrorIs(t, err, pgonce.ErrFailed)
}

func TestClaimRelease(t *testing.T) {
	t.Parallel()
	eachIsolation(t, func(t *testing.T, s *shop, options pgx.TxOptions) {
		tx := s.begin(options)
		claimed, err := txn.Claim(t.Context(), tx, request("k"))
		require.NoError(t, err)
		_, err = order("kept")(t.Context(), tx)
		require.NoError(t, err)
		require.NoError(t, claimed.Release(t.Context()))
		require.NoError(t, tx.Commit(t.Context()))
		require.Zero(t, s.keys())
		require.Equal(t, 1, s.orders())
		_, again := s.claim(request("k"))
		require.Equal(t, pgonce.Fresh, again.Outcome)
	})
}

func TestClaimEndedTwiceIsLost(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx := t.Context()
	ends := map[string]func(*txn.Claimed) error{
		"Complete": func(c *txn.Claimed) error { return c.Complete(ctx, 1) },
		"Fail":     func(c *txn.Claimed) error { return c.Fail(ctx, errBusiness) },
		"Release":  func(c *txn.Claimed) error { return c.Release(ctx) },
	}
	for first, end := range ends {
		for second, again := range ends {
			tx, claimed := s.claim(request(first + second))
			require.NoError(t, end(claimed))
			err := again(claimed)
			require.ErrorIs(t, err, pgonce.ErrLost)
			require.Equal(t, pgonce.CodeLost, pgonce.Code(err))
			require.NoError(t, tx.Rollback(ctx))
		}
		// A replay has nothing to end, and its transaction stays usable.
		tx, claimed := s.claim(request("k"))
		if claimed.Outcome == pgonce.Fresh {
			require.NoError(t, claimed.Complete(ctx, 1))
			require.NoError(t, tx.Commit(ctx))
			tx, claimed = s.claim(request("k"))
		}
		require.ErrorIs(t, end(claimed), pgonce.ErrLost)
		_, err := order(first)(ctx, tx)
		require.NoError(t, err)
		require.NoError(t, tx.Commit(ctx))
	}
}

func TestClaimInASavepoint(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx := t.Context()
	tx, claimed := s.claim(request("k"))
	// A completion that is rolled back can be done again.
	require.Error(t, pgx.BeginFunc(ctx, tx, func(pgx.Tx) error {
		require.NoError(t, claimed.Complete(ctx, "undone"))
		return errBusiness
	}))
	require.NoError(t, claimed.Complete(ctx, "done"))
	// A claim that is rolled back is gone.
	var undone *txn.Claimed
	require.Error(t, pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) (err error) {
		undone, err = txn.Claim(ctx, tx, request("other"))
		require.NoError(t, err)
		return errBusiness
	}))
	require.Error(t, undone.Complete(ctx, 1))
	claimed, err := txn.Claim(ctx, tx, request("other"))
	require.NoError(t, err)
	require.Equal(t, pgonce.Fresh, claimed.Outcome)
	require.NoError(t, claimed.Complete(ctx, 2))
	require.NoError(t, tx.Commit(ctx))
	_, again := s.claim(request("k"))
	require.Equal(t, `"done"`, string(again.Result))
}

func TestClaimOutcomesAreErrorsThatLeaveTheTransactionUsable(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx := t.Context()
	req := request("k")
	req.Fingerprint = []byte{1}
	_, err := txn.Run(ctx, s.Pool, req, order("a"))
	require.NoError(t, err)
	s.exec(`SELECT * FROM once.claim('orders', 'parked'); UPDATE once_data.orders_g1 SET state = 'parked' WHERE key = 'parked'`)
	_, err = txn.Run(ctx, s.Pool, request("failed"), func(context.Context, pgx.Tx) (int, error) { return 0, txn.Final(errBusiness) })
	require.Error(t, err)
	release := s.holding(request("held"))

	tx := s.begin(pgx.TxOptions{})
	for key, want := range map[string]error{
		"k": pgonce.ErrMismatch, "parked": pgonce.ErrParked, "failed": pgonce.ErrFailed, "held": pgonce.ErrInProgress,
	} {
		req := request(key)
		if key == "k" {
			req.Fingerprint = []byte{2}
		}
		req.Strict = key == "held"
		claimed, err := txn.Claim(ctx, tx, req)
		require.ErrorIs(t, err, want)
		require.Nil(t, claimed)
	}
	req = request("held")
	req.Wait = time.Millisecond
	_, err = txn.Claim(ctx, tx, req)
	require.ErrorIs(t, err, pgonce.ErrInProgress)
	_, err = order("b")(ctx, tx)
	require.NoError(t, err)
	require.NoError(t, tx.Commit(ctx))
	require.NoError(t, release())
}

func TestCase22ClaimOfAnOmittedResult(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec(`SELECT once.alter_scope('orders', p_max_result_bytes => 1024)`)
	tx, claimed := s.claim(request("k"))
	require.NoError(t, claimed.Complete(t.Context(), strings.Repeat("x", 2000)))
	require.NoError(t, tx.Commit(t.Context()))

	_, again := s.claim(request("k"))
	require.Equal(t, pgonce.Replay, again.Outcome)
	require.Equal(t, int64(2002), again.OmittedBytes)
	var omitted *pgonce.ResultOmittedError
	require.ErrorAs(t, again.Decode(new(string)), &omitted)
	require.Equal(t, int64(2002), omitted.Bytes)

	record, _, err := txn.Lookup(t.Context(), s.Pool, pgonce.Key{Scope: "orders", Key: "k"})
	require.NoError(t, err)
	require.ErrorIs(t, record.Decode(nil, new(string)), pgonce.ErrResultOmitted)
}

func TestClaimUsesTheCodecOfTheRequest(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	req := request("k")
	req.Codec = gobCodec{}
	tx, claimed := s.claim(req)
	require.NoError(t, claimed.Complete(t.Context(), []int{1, 2}))
	require.NoError(t, tx.Commit(t.Context()))
	_, again := s.claim(req)
	var value []int
	require.NoError(t, again.Decode(&value))
	require.Equal(t, []int{1, 2}, value)
	_, asJSON := s.claim(request("k"))
	require.ErrorContains(t, asJSON.Decode(&value), "application/x-gob")

	record, _, err := txn.Lookup(t.Context(), s.Pool, pgonce.Key{Scope: "orders", Key: "k"})
	require.NoError(t, err)
	value = nil
	require.NoError(t, record.Decode(gobCodec{}, &value))
	require.Equal(t, []int{1, 2}, value)
	require.Error(t, record.Decode(nil, &value))

	tx, claimed = s.claim(request("not encodable"))
	require.ErrorContains(t, claimed.Complete(t.Context(), make(chan int)), "encode result")
	require.NoError(t, claimed.Complete(t.Context(), 1), "nothing has happened yet")
	require.NoError(t, tx.Commit(t.Context()))
}

func TestClaimConflictsAreTheCallersToRetry(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx := t.Context()
	tx := s.begin(pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	_, err := tx.Exec(ctx, "SELECT 1") // the snapshot
	require.NoError(t, err)
	_, err = txn.Run(ctx, s.Pool, request("k"), order("a"))
	require.NoError(t, err)
	_, err = txn.Claim(ctx, tx, request("k"))
	require.True(t, txn.Retryable(err), "%v", err)
	require.NoError(t, tx.Rollback(ctx))

	tx = s.begin(pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	claimed, err := txn.Claim(ctx, tx, request("k"))
	require.NoError(t, err)
	require.Equal(t, pgonce.Replay, claimed.Outcome)
}

func TestClaimInATransactionOfRun(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, want := range []pgonce.Outcome{pgonce.Fresh, pgonce.Replay} {
		_, err := txn.Run(t.Context(), s.Pool, request("outer "+string(want)), func(ctx context.Context, tx pgx.Tx) (int, error) {
			claimed, err := txn.Claim(ctx, tx, request("inner"))
			require.NoError(t, err)
			require.Equal(t, want, claimed.Outcome)
			if claimed.Outcome == pgonce.Fresh {
				err = claimed.Complete(ctx, nil)
			}
			return 0, err
		})
		require.NoError(t, err)
	}
	require.Equal(t, 3, s.keys())
}

func TestClaimThatARotationOvertakes(t *testing.T) {
	t.Parallel()
	eachIsolation(t, func(t *testing.T, s *shop, options pgx.TxOptions) {
		_, err := txn.Run(t.Context(), s.Pool, request("first"), order("first"))
		require.NoError(t, err)
		tx := s.begin(options)
		claimed, err := txn.Claim(t.Context(), tx, request("k"))
		require.NoError(t, err)
		s.rotate(1)
		require.NoError(t, claimed.Complete(t.Context(), 1))
		require.NoError(t, tx.Commit(t.Context()))
		_, again := s.claim(request("k"))
		require.Equal(t, pgonce.Replay, again.Outcome)
	})
}

func TestLookup(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx := t.Context()
	key := pgonce.Key{Scope: "orders", Subject: "alice", Key: "k"}
	_, found, err := txn.Lookup(ctx, s.Pool, key)
	require.NoError(t, err)
	require.False(t, found)

	req := txn.Request{Scope: "orders", Subject: "alice", Key: "k", Fingerprint: []byte{1}}
	_, err = txn.Run(ctx, s.Pool, req, func(ctx context.Context, tx pgx.Tx) (int64, error) {
		// Deferred, so not there yet; another transaction sees nothing anyway.
		_, found, err := txn.Lookup(ctx, s.Pool, key)
		require.NoError(t, err)
		require.False(t, found)
		return order("a")(ctx, tx)
	})
	require.NoError(t, err)
	record, found, err := txn.Lookup(ctx, s.Pool, key)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, key, record.Key)
	require.Equal(t, txn.StateDone, record.State)
	require.Equal(t, int32(1), record.Attempt)
	require.Equal(t, []byte{1}, record.Fingerprint)
	require.Zero(t, record.LeaseUntil)
	require.False(t, record.FinishedAt.Before(record.ClaimedAt))
	var id int64
	require.NoError(t, record.Decode(nil, &id))
	require.Equal(t, int64(1), id)

	for _, other := range []pgonce.Key{{Scope: "orders", Key: "k"}, {Scope: "orders", Subject: "bob", Key: "k"}} {
		_, found, err := txn.Lookup(ctx, s.Pool, other)
		require.NoError(t, err)
		require.False(t, found)
	}

	_, _, err = txn.Lookup(ctx, s.Pool, pgonce.Key{Scope: "orders"})
	require.Equal(t, pgonce.CodeInvalidKey, pgonce.Code(err))
	_, _, err = txn.Lookup(ctx, s.Pool, pgonce.Key{Scope: "nowhere", Key: "k"})
	require.Equal(t, pgonce.CodeUnknownScope, pgonce.Code(err))

	_, err = txn.Run(ctx, s.Pool, request("refused"), func(context.Context, pgx.Tx) (int, error) { return 0, txn.Final(errors.New("no")) })
	require.Error(t, err)
	record, _, err = txn.Lookup(ctx, s.conn(), pgonce.Key{Scope: "orders", Key: "refused"})
	require.NoError(t, err)
	require.Equal(t, txn.StateFailed, record.State)
	require.Equal(t, "no", string(record.Result))
	require.Error(t, record.Decode(nil, new(string)), "a refusal is no result")
}
