package txn_test

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/txn"
)

func TestRunDoesOnceAndReplays(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	first, err := txn.Run(t.Context(), s.Pool, request("k"), order("a"))
	require.NoError(t, err)
	require.Equal(t, txn.Result[int64]{Value: 1, Outcome: pgonce.Fresh, Attempt: 1}, first)

	again, err := txn.Run(t.Context(), s.Pool, request("k"), never[int64](t))
	require.NoError(t, err)
	require.Equal(t, pgonce.Replay, again.Outcome)
	require.Equal(t, first.Value, again.Value)
	require.Equal(t, first.Attempt, again.Attempt)
	require.WithinDuration(t, time.Now(), again.FinishedAt, time.Minute)
	s.requireOnce()
}

func TestReplayedValuesAreEqualToTheFirst(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	type receipt struct {
		ID    int64
		Lines []string
		At    time.Time
		Note  *string
	}
	note := "two bags"
	requireReplay(t, s, 42)
	requireReplay(t, s, "text with \x00 and ☃")
	requireReplay(t, s, "")
	requireReplay(t, s, false)
	requireReplay(t, s, struct{}{})
	requireReplay(t, s, []string{"a", "b"})
	requireReplay(t, s, []string{})
	requireReplay(t, s, []string(nil))
	requireReplay(t, s, []byte{0, 1, 255})
	requireReplay(t, s, map[string]int{"a": 1})
	requireReplay(t, s, receipt{7, []string{"x"}, time.Unix(1e9, 0).UTC(), &note})
	requireReplay(t, s, &receipt{ID: 8})
	requireReplay(t, s, (*receipt)(nil))
	requireReplay[any](t, s, nil)
}

func requireReplay[T any](t *testing.T, s *shop, value T) {
	t.Helper()
	req := request(fmt.Sprint("k", s.keys()))
	first, err := txn.Run(t.Context(), s.Pool, req, func(context.Context, pgx.Tx) (T, error) { return value, nil })
	require.NoError(t, err)
	require.Equal(t, pgonce.Fresh, first.Outcome)
	require.Equal(t, value, first.Value)
	again, err := txn.Run(t.Context(), s.Pool, req, never[T](t))
	require.NoError(t, err)
	require.Equal(t, pgonce.Replay, again.Outcome)
	require.Equal(t, value, again.Value)
}

func TestCase20AnotherFingerprintIsAMismatchError(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	req := request("k")
	req.Fingerprint = []byte{1, 2}
	_, err := txn.Run(t.Context(), s.Pool, req, order("a"))
	require.NoError(t, err)

	other := req
	other.Fingerprint = []byte{1, 3}
	result, err := txn.Run(t.Context(), s.Pool, other, never[int64](t))
	require.ErrorIs(t, err, pgonce.ErrMismatch)
	var mismatch *pgonce.MismatchError
	require.ErrorAs(t, err, &mismatch)
	require.Equal(t, pgonce.Key{Scope: "orders", Key: "k"}, mismatch.Key)
	require.Zero(t, result)

	// The same one is a replay, and so is none at all.
	for _, fingerprint := range [][]byte{{1, 2}, nil} {
		req.Fingerprint = fingerprint
		again, err := txn.Run(t.Context(), s.Pool, req, never[int64](t))
		require.NoError(t, err)
		require.Equal(t, pgonce.Replay, again.Outcome)
	}
	s.requireOnce()
}

// holding starts an order that holds its key until release is called, which lets it finish.
func (s *shop) holding(req txn.Request) (release func() error) {
	s.t.Helper()
	held, let := make(chan struct{}), make(chan struct{})
	open := sync.OnceFunc(func() { close(let) })
	s.t.Cleanup(open)
	done := async(func() error {
		_, err := txn.Run(context.Background(), s.Pool, req, func(ctx context.Context, tx pgx.Tx) (int64, error) {
			close(held)
			<-let
			return order("held")(ctx, tx)
		})
		return err
	})
	receive(s.t, held)
	return func() error {
		open()
		return receive(s.t, done)
	}
}

func TestCase05StrictAnswersInProgressAtOnce(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	release := s.holding(request("k"))
	req := request("k")
	req.Strict = true
	_, err := txn.Run(t.Context(), s.Pool, req, never[int64](t))
	require.ErrorIs(t, err, pgonce.ErrInProgress)
	var inProgress *pgonce.InProgressError
	require.ErrorAs(t, err, &inProgress)
	require.Equal(t, pgonce.Key{Scope: "orders", Key: "k"}, inProgress.Key)
	require.Positive(t, inProgress.RetryAfter)
	require.NoError(t, release())

	again, err := txn.Run(t.Context(), s.Pool, req, never[int64](t))
	require.NoError(t, err)
	require.Equal(t, pgonce.Replay, again.Outcome)
	s.requireOnce()
}

func TestWaitEndsWithTheHoldersResult(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	release := s.holding(request("k"))
	waiter := async(func() txn.Result[int64] {
		result, err := txn.Run(context.Background(), s.Pool, request("k"), never[int64](t))
		require.NoError(t, err)
		return result
	})
	s.awaitLock("advisory")
	require.NoError(t, release())
	result := receive(t, waiter)
	require.Equal(t, pgonce.Replay, result.Outcome)
	require.Equal(t, int64(1), result.Value)
	s.requireOnce()
}

func TestWaitIsBoundedByTheRequest(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	release := s.holding(request("k"))
	req := request("k")
	req.Wait = 20 * time.Millisecond
	for _, timeout := range []time.Duration{0, time.Hour} {
		ctx := t.Context()
		if timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout)
			defer cancel()
		}
		_, err := txn.Run(ctx, s.Pool, req, never[int64](t))
		require.ErrorIs(t, err, pgonce.ErrInProgress)
	}
	require.NoError(t, release())
	s.requireOnce()
}

func TestWaitIsBoundedByTheContextsDeadline(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	release := s.holding(request("k"))
	pool := s.pool(func(c *pgxpool.Config) { c.MaxConns = 1 })
	for _, wait := range []time.Duration{0, time.Hour} {
		req := request("k")
		req.Wait = wait
		// The answer comes shortly before the deadline, so a machine that stops for a moment may miss it. Not every time.
		eventually(t, func() bool {
			warm(t, pool)
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			_, err := txn.Run(ctx, pool, req, never[int64](t))
			if errors.Is(err, pgonce.ErrInProgress) {
				return ctx.Err() == nil
			}
			require.ErrorIs(t, err, context.DeadlineExceeded)
			return false
		}, "no answer before the deadline")
	}
	require.NoError(t, release())
	require.Equal(t, 1, s.orders())
	s.requireIdle(pool)
}

func TestWaitOfACancelledContextEnds(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	release := s.holding(request("k"))
	ctx, cancel := context.WithCancel(t.Context())
	waiter := async(func() error {
		_, err := txn.Run(ctx, s.Pool, request("k"), never[int64](t))
		return err
	})
	s.awaitLock("advisory")
	cancel()
	require.ErrorIs(t, receive(t, waiter), context.Canceled)
	require.NoError(t, release())
	s.requireOnce()
	s.requireIdle(s.Pool)
}

type declinedError struct{ code string }

func (e *declinedError) Error() string { return "declined: " + e.code }

func TestFinalStoresARefusal(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	cause := &declinedError{"expired card"}
	calls := 0
	refuse := func(ctx context.Context, tx pgx.Tx) (int64, error) {
		calls++
		if _, err := order("a")(ctx, tx); err != nil {
			return 0, err
		}
		return 0, txn.Final(cause)
	}
	_, err := txn.Run(t.Context(), s.Pool, request("k"), refuse)
	require.ErrorIs(t, err, pgonce.ErrFailed)
	require.ErrorIs(t, err, cause)
	var failed *pgonce.FailedError
	require.ErrorAs(t, err, &failed)
	require.False(t, failed.Replayed)
	require.Equal(t, "declined: expired card", failed.Message)

	_, err = txn.Run(t.Context(), s.Pool, request("k"), refuse)
	require.ErrorIs(t, err, pgonce.ErrFailed)
	require.NotErrorIs(t, err, cause)
	failed = nil
	require.ErrorAs(t, err, &failed)
	require.True(t, failed.Replayed)
	require.Equal(t, "declined: expired card", failed.Message)
	require.Equal(t, pgonce.Key{Scope: "orders", Key: "k"}, failed.Key)
	require.NoError(t, errors.Unwrap(failed))

	require.Equal(t, 1, calls)
	require.Zero(t, s.orders(), "what the function did is undone")
	require.Equal(t, 1, s.keys())
	s.requireIdle(s.Pool)
}

func TestFinalIsSeenThroughWrapping(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	cause := errors.New("no such coupon")
	_, err := txn.Consume(t.Context(), s.Pool, request("k"), func(context.Context, pgx.Tx) error {
		return errors.Join(errors.New("checkout"), txn.Final(cause))
	})
	require.ErrorIs(t, err, pgonce.ErrFailed)
	require.ErrorIs(t, err, cause)
	require.NoError(t, txn.Final(nil))
}

func TestFinalAtEveryIsolationLevel(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		req := request(string(level))
		req.TxOptions.IsoLevel = level
		for _, replayed := range []bool{false, true} {
			_, err := txn.Run(t.Context(), s.Pool, req, func(ctx context.Context, tx pgx.Tx) (int64, error) {
				id, err := order("a")(ctx, tx)
				require.NoError(t, err)
				return id, txn.Final(errors.New("no"))
			})
			var failed *pgonce.FailedError
			require.ErrorAs(t, err, &failed, level)
			require.Equal(t, replayed, failed.Replayed, level)
		}
	}
	require.Zero(t, s.orders())
}

func TestAParkedClaimIsAnError(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	_, err := txn.Run(t.Context(), s.Pool, request("k"), order("a"))
	require.NoError(t, err)
	s.exec(`UPDATE once_data.orders_g1 SET state = 'parked', finished_at = NULL, attempt = 3`)
	_, err = txn.Run(t.Context(), s.Pool, request("k"), never[int64](t))
	require.ErrorIs(t, err, pgonce.ErrParked)
	var parked *pgonce.ParkedError
	require.ErrorAs(t, err, &parked)
	require.Equal(t, int32(3), parked.Attempt)
}

func TestAnUnfinishedClaimOfAnotherIsInProgress(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec(`SELECT * FROM once.claim('orders', 'k')`) // committed, never completed
	_, err := txn.Run(t.Context(), s.Pool, request("k"), never[int64](t))
	require.ErrorIs(t, err, pgonce.ErrInProgress)
}

func TestCase22AResultOverTheLimitIsOmitted(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec(`SELECT once.alter_scope('orders', p_max_result_bytes => 1024)`)
	for _, c := range []struct {
		length  int
		omitted bool
	}{{1022, false}, {1023, true}} { // and the two quotes of JSON
		value := strings.Repeat("x", c.length)
		req := request(value[:c.length%100+1])
		first, err := txn.Run(t.Context(), s.Pool, req, func(context.Context, pgx.Tx) (string, error) { return value, nil })
		require.NoError(t, err)
		require.Equal(t, value, first.Value)

		again, err := txn.Run(t.Context(), s.Pool, req, never[string](t))
		require.Equal(t, pgonce.Replay, again.Outcome)
		if !c.omitted {
			require.NoError(t, err)
			require.Equal(t, value, again.Value)
			continue
		}
		require.ErrorIs(t, err, pgonce.ErrResultOmitted)
		var omitted *pgonce.ResultOmittedError
		require.ErrorAs(t, err, &omitted)
		require.Equal(t, int64(c.length+2), omitted.Bytes)
		require.Empty(t, again.Value)
	}
}

func TestConsumeStoresNoResult(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	req := request("message-1")
	req.Meta = []byte(`{"topic": "orders"}`)
	outcome, err := txn.Consume(t.Context(), s.Pool, req, func(ctx context.Context, tx pgx.Tx) error {
		_, err := order("a")(ctx, tx)
		return err
	})
	require.NoError(t, err)
	require.Equal(t, pgonce.Fresh, outcome)
	outcome, err = txn.Consume(t.Context(), s.Pool, req, func(context.Context, pgx.Tx) error {
		t.Error("the function was called")
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, pgonce.Replay, outcome)
	s.requireOnce()

	record, found, err := txn.Lookup(t.Context(), s.Pool, pgonce.Key{Scope: "orders", Key: "message-1"})
	require.NoError(t, err)
	require.True(t, found)
	require.Nil(t, record.Result)
	require.JSONEq(t, `{"topic": "orders"}`, string(record.Meta))

	// Run replays it with the zero value.
	result, err := txn.Run(t.Context(), s.Pool, req, never[int64](t))
	require.NoError(t, err)
	require.Equal(t, pgonce.Replay, result.Outcome)
	require.Zero(t, result.Value)
}

func TestMetaIsStoredBesideResultAndRefusal(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for key, fail := range map[string]error{"done": nil, "failed": txn.Final(errors.New("no"))} {
		req := request(key)
		req.Meta = []byte(`{"status": 201}`)
		_, err := txn.Run(t.Context(), s.Pool, req, func(context.Context, pgx.Tx) (int, error) { return 1, fail })
		if fail == nil {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, pgonce.ErrFailed)
		}
		record, _, err := txn.Lookup(t.Context(), s.Pool, pgonce.Key{Scope: "orders", Key: key})
		require.NoError(t, err)
		require.Equal(t, txn.State(key), record.State)
		require.JSONEq(t, `{"status": 201}`, string(record.Meta))
	}
}

// gobCodec is a Codec of one's own.
type gobCodec struct{}

func (gobCodec) Encode(value any) ([]byte, string, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(value)
	return b.Bytes(), "application/x-gob", err
}

func (gobCodec) Decode(data []byte, contentType string, into any) error {
	if contentType != "application/x-gob" {
		return errors.New("not a gob: " + contentType)
	}
	return gob.NewDecoder(bytes.NewReader(data)).Decode(into)
}

func TestACodecOfOnesOwn(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	req := request("k")
	req.Codec = gobCodec{}
	value := map[int]string{1: "one"}
	_, err := txn.Run(t.Context(), s.Pool, req, func(context.Context, pgx.Tx) (map[int]string, error) { return value, nil })
	require.NoError(t, err)
	again, err := txn.Run(t.Context(), s.Pool, req, never[map[int]string](t))
	require.NoError(t, err)
	require.Equal(t, value, again.Value)

	// Another codec says so, and the outcome with it.
	req.Codec = nil
	again, err = txn.Run(t.Context(), s.Pool, req, never[map[int]string](t))
	require.ErrorContains(t, err, "application/x-gob")
	require.Equal(t, pgonce.Replay, again.Outcome)
}

func TestAResultOfAnotherTypeIsAnError(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	_, err := txn.Run(t.Context(), s.Pool, request("k"), order("a"))
	require.NoError(t, err)
	result, err := txn.Run(t.Context(), s.Pool, request("k"), never[[]string](t))
	require.ErrorContains(t, err, "orders/k: decode stored result")
	require.Equal(t, pgonce.Replay, result.Outcome)
	s.requireOnce()
}

func TestAResultThatCannotBeEncodedLeavesNoTrace(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	_, err := txn.Run(t.Context(), s.Pool, request("k"), func(ctx context.Context, tx pgx.Tx) (chan int, error) {
		_, err := order("a")(ctx, tx)
		return make(chan int), err
	})
	require.ErrorContains(t, err, "encode result")
	s.requireIdle(s.Pool)
	s.requireNothing()
}

func TestTxOptionsAreApplied(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, level := range []pgx.TxIsoLevel{"", pgx.ReadUncommitted, pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		for range 2 { // through the dispatcher, then by the epoch
			req := request(fmt.Sprint("k", s.keys()))
			req.TxOptions = pgx.TxOptions{IsoLevel: level, AccessMode: pgx.ReadWrite, DeferrableMode: pgx.Deferrable}
			result, err := txn.Run(t.Context(), s.Pool, req, func(ctx context.Context, tx pgx.Tx) (v [2]string, err error) {
				err = tx.QueryRow(ctx, "SELECT current_setting('transaction_isolation'), current_setting('transaction_deferrable')").Scan(&v[0], &v[1])
				return v, err
			})
			require.NoError(t, err)
			want := string(level)
			if want == "" {
				want = "read committed"
			}
			require.Equal(t, [2]string{want, "on"}, result.Value)
			again, err := txn.Run(t.Context(), s.Pool, req, never[[2]string](t))
			require.NoError(t, err)
			require.Equal(t, result.Value, again.Value)
		}
	}
}
