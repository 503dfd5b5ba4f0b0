package txn_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/internal/pgproxy"
	"github.com/pgonce/pgonce/txn"
)

// newCourier is a shop whose scope orders parks what it loses if park is set; otherwise it is taken over, up to three attempts.
func newCourier(t testing.TB, park bool) *shop {
	t.Helper()
	s := newShop(t)
	s.exec("SELECT once.alter_scope('orders', p_max_attempts => 3)")
	if park {
		s.exec("SELECT once.alter_scope('orders', p_on_expiry => 'park')")
	}
	return s
}

// leasedValue is work that calls nobody.
func leasedValue[T any](v T) func(context.Context, *txn.Lease) (T, error) {
	return func(context.Context, *txn.Lease) (T, error) { return v, nil }
}

func neverLeased[T any](t testing.TB) func(context.Context, *txn.Lease) (T, error) {
	return func(context.Context, *txn.Lease) (T, error) {
		t.Error("the work was done")
		return *new(T), nil
	}
}

// recordOrder is the business: it adds an order.
func recordOrder(ctx context.Context, tx pgx.Tx, ref string) error {
	_, err := order(ref)(ctx, tx)
	return err
}

// expire lets the lease of the key k run out.
func (s *shop) expire() {
	s.t.Helper()
	s.exec("UPDATE once_data.orders SET lease_until = clock_timestamp() - interval '1 second' WHERE key = 'k' AND state = 'in_progress'")
}

// leaseState is state and note of the key k.
func (s *shop) leaseState() (state, note string) {
	s.t.Helper()
	err := s.Pool.QueryRow(context.Background(), "SELECT state, coalesce(note, '') FROM once.lookup('orders', 'k')").Scan(&state, &note)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", ""
	}
	require.NoError(s.t, err)
	return state, note
}

func TestRunLeased(t *testing.T) {
	t.Parallel()
	s := newCourier(t, false)
	var key string
	result, err := txn.RunLeased(t.Context(), s.Pool, request("k"), func(ctx context.Context, lease *txn.Lease) (string, error) {
		state, _ := s.leaseState()
		require.Equal(t, "in_progress", state, "everybody can see the claim while work goes on")
		require.Equal(t, int32(1), lease.Attempt())
		key = lease.IdempotencyKey()
		require.Regexp(t, "^[0-9a-f]{64}$", key)
		return "a", nil
	}, recordOrder)
	require.NoError(t, err)
	require.Equal(t, txn.Result[string]{Value: "a", Outcome: pgonce.Fresh, Attempt: 1}, result)

	again, err := txn.RunLeased(t.Context(), s.Pool, request("k"), neverLeased[string](t), recordOrder)
	require.NoError(t, err)
	require.Equal(t, "a", again.Value)
	require.Equal(t, pgonce.Replay, again.Outcome)
	s.requireOnce()

	_, err = txn.RunLeased(t.Context(), s.Pool, request("l"), func(ctx context.Context, lease *txn.Lease) (int, error) {
		require.NotEqual(t, key, lease.IdempotencyKey())
		return 1, nil
	}, nil)
	require.NoError(t, err)
	s.requireIdle(s.Pool)
}

func TestCase15AnUnknownOutcomeIsKept(t *testing.T) {
	t.Parallel()
	broken := errors.New("no answer")
	for name, c := range map[string]struct {
		park        bool
		err         error
		state, note string
	}{
		"nobody knows":                       {false, broken, "in_progress", "no answer"},
		"nobody knows, and it is not tried":  {true, broken, "parked", "no answer"},
		"a refusal":                          {false, txn.Final(broken), "failed", ""},
		"no effect":                          {false, txn.NoEffect(broken), "", ""},
		"no effect, where calls are careful": {true, txn.NoEffect(broken), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newCourier(t, c.park)
			_, err := txn.RunLeased(t.Context(), s.Pool, request("k"), func(context.Context, *txn.Lease) (string, error) {
				return "a", c.err
			}, func(context.Context, pgx.Tx, string) error { t.Error("recorded"); return nil })
			require.ErrorIs(t, err, broken)
			state, note := s.leaseState()
			require.Equal(t, c.state, state)
			require.Equal(t, c.note, note)

			result, err := txn.RunLeased(t.Context(), s.Pool, request("k"), leasedValue("b"), recordOrder)
			switch c.state {
			case "parked":
				require.ErrorIs(t, err, pgonce.ErrParked)
			case "failed":
				var failed *pgonce.FailedError
				require.ErrorAs(t, err, &failed)
				require.True(t, failed.Replayed)
				require.Equal(t, "no answer", failed.Message)
			case "in_progress":
				require.NoError(t, err)
				require.Equal(t, int32(2), result.Attempt, "taken over at once")
				s.requireOnce()
			default:
				require.NoError(t, err)
				require.Equal(t, int32(1), result.Attempt, "as if never claimed")
				s.requireOnce()
			}
			s.requireIdle(s.Pool)
		})
	}
	require.NoError(t, txn.NoEffect(nil))
}

func TestRunLeasedUsesUpItsAttempts(t *testing.T) {
	t.Parallel()
	s := newCourier(t, false)
	for attempt := range 3 {
		_, err := txn.RunLeased(t.Context(), s.Pool, request("k"), func(_ context.Context, lease *txn.Lease) (int, error) {
			require.Equal(t, int32(attempt+1), lease.Attempt())
			return 0, errors.New("no answer")
		}, nil)
		require.EqualError(t, err, "no answer")
	}
	_, err := txn.RunLeased(t.Context(), s.Pool, request("k"), neverLeased[int](t), nil)
	var parked *pgonce.ParkedError
	require.ErrorAs(t, err, &parked)
	require.Equal(t, int32(3), parked.Attempt)
}

// A living request that is slow is not taken over.
func TestCase12ALivingRequestKeepsItsLease(t *testing.T) {
	t.Parallel()
	s := newCourier(t, false)
	req := request("k")
	req.Lease = 3 * time.Second
	until := func() (until time.Time) {
		require.NoError(t, s.Pool.QueryRow(t.Context(), "SELECT lease_until FROM once.lookup('orders', 'k')").Scan(&until))
		return until
	}
	_, err := txn.RunLeased(t.Context(), s.Pool, req, func(ctx context.Context, lease *txn.Lease) (string, error) {
		first := until()
		eventually(t, func() bool { return until().After(first) }, "the lease was not renewed")
		return "a", ctx.Err()
	}, recordOrder)
	require.NoError(t, err)
	s.requireOnce()
}

// Whoever has lost the lease is told, and nothing of it counts.
func TestCase12WhoLostTheLeaseChangesNothing(t *testing.T) {
	t.Parallel()
	s := newCourier(t, false)
	req := request("k")
	req.Lease = 3 * time.Second
	for name, ending := range map[string]func(ctx context.Context) error{
		"and notices": func(ctx context.Context) error {
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), pgonce.ErrLost)
			return ctx.Err()
		},
		"and does not care":    func(ctx context.Context) error { <-ctx.Done(); return nil },
		"and is quicker":       func(context.Context) error { return nil },
		"and refuses":          func(context.Context) error { return txn.Final(errors.New("no")) },
		"and had no effect":    func(context.Context) error { return txn.NoEffect(errors.New("no")) },
		"and does not know it": func(context.Context) error { return errors.New("no answer") },
	} {
		t.Run(name, func(t *testing.T) {
			s := s.again(t)
			_, err := txn.RunLeased(t.Context(), s.Pool, req, func(ctx context.Context, _ *txn.Lease) (string, error) {
				s.expire()
				second, err := txn.RunLeased(context.Background(), s.Pool, request("k"), leasedValue("second"), recordOrder)
				require.NoError(t, err)
				require.Equal(t, int32(2), second.Attempt)
				return "first", ending(ctx)
			}, recordOrder)
			require.ErrorIs(t, err, pgonce.ErrLost)
			s.requireOnce()
			require.Equal(t, 1, s.count("public.orders WHERE ref = 'second'"))
			replay, err := txn.RunLeased(t.Context(), s.Pool, request("k"), neverLeased[string](t), recordOrder)
			require.NoError(t, err)
			require.Equal(t, "second", replay.Value)
		})
	}
}

// A takeover must not repeat what an earlier attempt has behind it.
func TestStepsAreSkippedByLaterAttempts(t *testing.T) {
	t.Parallel()
	s := newCourier(t, false)
	charges, ships := 0, 0
	work := func(fail error) func(context.Context, *txn.Lease) (string, error) {
		return func(ctx context.Context, lease *txn.Lease) (string, error) {
			id, err := txn.Step(ctx, lease, "charge", func(context.Context) (int, error) { charges++; return 40 + charges, nil })
			require.NoError(t, err)
			require.Equal(t, 41, id)
			_, err = txn.Step(ctx, lease, "ship", func(context.Context) (*string, error) { ships++; return nil, fail })
			if err != nil {
				return "", err
			}
			same, err := txn.Step(ctx, lease, "charge", func(context.Context) (int, error) { charges++; return 0, nil })
			require.NoError(t, err)
			require.Equal(t, 41, same, "in the same attempt too")
			return "a", nil
		}
	}
	_, err := txn.RunLeased(t.Context(), s.Pool, request("k"), work(errors.New("no truck")), recordOrder)
	require.EqualError(t, err, "no truck")
	result, err := txn.RunLeased(t.Context(), s.Pool, request("k"), work(nil), recordOrder)
	require.NoError(t, err)
	require.Equal(t, int32(2), result.Attempt)
	require.Equal(t, 1, charges)
	require.Equal(t, 2, ships)
	s.requireOnce()
}

func TestAStepOfALostLease(t *testing.T) {
	t.Parallel()
	s := newCourier(t, false)
	_, err := txn.RunLeased(t.Context(), s.Pool, request("k"), func(ctx context.Context, lease *txn.Lease) (string, error) {
		_, err := txn.Step(ctx, lease, "charge", func(context.Context) (int, error) {
			s.expire()
			_, err := txn.RunLeased(context.Background(), s.Pool, request("k"), leasedValue("second"), recordOrder)
			return 1, err
		})
		require.ErrorIs(t, err, pgonce.ErrLost)
		return "", err
	}, recordOrder)
	require.ErrorIs(t, err, pgonce.ErrLost)
	s.requireOnce()
}

// The work is done: that its caller has gone must not lose it.
func TestRunLeasedCompletesAfterItsCallerHasGone(t *testing.T) {
	t.Parallel()
	s := newCourier(t, true)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := txn.RunLeased(ctx, s.Pool, request("k"), func(ctx context.Context, lease *txn.Lease) (string, error) {
		return txn.Step(ctx, lease, "charge", func(context.Context) (string, error) { cancel(); return "a", nil })
	}, recordOrder)
	require.NoError(t, err)
	s.requireOnce()

	ctx, cancel = context.WithCancel(t.Context())
	_, err = txn.RunLeased(ctx, s.Pool, request("l"), func(ctx context.Context, _ *txn.Lease) (string, error) {
		cancel()
		return "", ctx.Err()
	}, recordOrder)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, s.count("once_data.orders WHERE key = 'l' AND state = 'parked'"), "nobody knows what the work did")
}

func TestRunLeasedWaits(t *testing.T) {
	t.Parallel()
	s := newCourier(t, false)
	working, finish := make(chan struct{}), make(chan struct{})
	first := async(func() error {
		_, err := txn.RunLeased(context.Background(), s.Pool, request("k"), func(context.Context, *txn.Lease) (string, error) {
			close(working)
			<-finish
			return "a", nil
		}, recordOrder)
		return err
	})
	receive(t, working)

	strict, short := request("k"), request("k")
	strict.Strict, short.Wait = true, 50*time.Millisecond
	for _, req := range []txn.Request{strict, short} {
		_, err := txn.RunLeased(t.Context(), s.Pool, req, neverLeased[string](t), recordOrder)
		var inProgress *pgonce.InProgressError
		require.ErrorAs(t, err, &inProgress)
		require.Greater(t, inProgress.RetryAfter, 30*time.Second, "when the lease ends")
	}
	ctx, cancel := context.WithCancel(t.Context())
	canceled := async(func() error {
		_, err := txn.RunLeased(ctx, s.Pool, request("k"), neverLeased[string](t), recordOrder)
		return err
	})
	second := async(func() txn.Result[string] {
		result, err := txn.RunLeased(context.Background(), s.Pool, request("k"), neverLeased[string](t), recordOrder)
		require.NoError(t, err)
		return result
	})
	cancel()
	require.ErrorIs(t, receive(t, canceled), context.Canceled)
	close(finish)
	require.NoError(t, receive(t, first))
	require.Equal(t, "a", receive(t, second).Value)
	s.requireOnce()
}

func TestRunLeasedWorkDoesNotReturn(t *testing.T) {
	t.Parallel()
	s := newCourier(t, true)
	require.PanicsWithValue(t, "at the disco", func() {
		_, _ = txn.RunLeased(t.Context(), s.Pool, request("k"), func(context.Context, *txn.Lease) (string, error) { panic("at the disco") }, recordOrder)
	})
	state, note := s.leaseState()
	require.Equal(t, "parked", state)
	require.Equal(t, "the work did not return", note)

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = txn.RunLeased(t.Context(), s.Pool, request("l"), func(context.Context, *txn.Lease) (string, error) { runtime.Goexit(); return "", nil }, recordOrder)
	}()
	receive(t, ended)
	require.Equal(t, 2, s.count("once_data.orders WHERE state = 'parked'"))
	s.requireIdle(s.Pool)
}

// What is recorded and the completion commit together.
func TestRunLeasedRecord(t *testing.T) {
	t.Parallel()
	s := newCourier(t, false)
	calls := 0
	_, err := txn.RunLeased(t.Context(), s.Pool, request("k"), leasedValue("a"), func(ctx context.Context, tx pgx.Tx, ref string) error {
		if err := recordOrder(ctx, tx, ref); err != nil {
			return err
		}
		if calls++; calls < 3 {
			_, err := tx.Exec(ctx, "DO $$ BEGIN RAISE 'again' USING ERRCODE = '40001'; END $$")
			return err
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, 3, calls)
	s.requireOnce()

	s = s.again(t)
	broken := errors.New("disk full")
	_, err = txn.RunLeased(t.Context(), s.Pool, request("k"), leasedValue("a"), func(ctx context.Context, tx pgx.Tx, ref string) error {
		return errors.Join(recordOrder(ctx, tx, ref), broken)
	})
	require.ErrorIs(t, err, broken)
	require.Zero(t, s.orders())
	state, note := s.leaseState()
	require.Equal(t, "in_progress", state)
	require.Equal(t, "disk full", note)
	result, err := txn.RunLeased(t.Context(), s.Pool, request("k"), leasedValue("b"), recordOrder)
	require.NoError(t, err)
	require.Equal(t, int32(2), result.Attempt)

	_, err = txn.RunLeased(t.Context(), s.Pool, request("l"), func(context.Context, *txn.Lease) (func(), error) { return func() {}, nil }, nil)
	require.ErrorContains(t, err, "encode result")
}

func TestRunLeasedClearsALostCommit(t *testing.T) {
	t.Parallel()
	eachCut(t, func(t *testing.T, s *shop, proxy *pgproxy.Proxy, url string, when pgproxy.When) {
		pool := openPool(t, url, nil)
		works := 0
		var records atomic.Int32
		result, err := txn.RunLeased(t.Context(), pool, request("k"), func(context.Context, *txn.Lease) (string, error) {
			works++
			proxy.CutCommit(when)
			return "a", nil
		}, func(ctx context.Context, tx pgx.Tx, ref string) error {
			records.Add(1)
			return recordOrder(ctx, tx, ref)
		})
		require.NoError(t, err)
		require.Equal(t, pgonce.Fresh, result.Outcome)
		require.Equal(t, 1, proxy.Cuts())
		require.Equal(t, 1, works)
		s.requireOnce()
		s.requireIdle(pool)
	})
}

func TestRunLeasedValidates(t *testing.T) {
	t.Parallel()
	s := newCourier(t, false)
	for code, change := range map[string]func(*txn.Request){
		pgonce.CodeInvalidArgument: func(r *txn.Request) { r.Lease = -1 },
		pgonce.CodeUnknownScope:    func(r *txn.Request) { r.Scope = "nobody" },
		pgonce.CodeInvalidKey:      func(r *txn.Request) { r.Key = "" },
	} {
		req := request("k")
		change(&req)
		_, err := txn.RunLeased(t.Context(), s.Pool, req, neverLeased[string](t), nil)
		require.Equal(t, code, pgonce.Code(err), "%v", err)
	}
	s.requireNothing()
}
