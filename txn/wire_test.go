package txn_test

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/internal/pgproxy"
	"github.com/pgonce/pgonce/txn"
)

// The tests of this file let every way to do something once lose its connection, or have it stand still, at every single
// message of its conversation with the server, and compare what the caller was told with what happened. Nearly all of their
// time is that of the server starting another process for every connection that was lost, so by default they take a sample.

var slow = flag.Bool("slow", false, "have the TestWire tests go through all boundaries of each conversation, not a sample of them")

// spread is how many boundaries the sample has, at the least, beside those at the end of the conversation.
const spread = 2

// wireFlow is one way to do something once.
type wireFlow struct {
	name string
	dial func(t testing.TB, url string) wireHandle
	// warm is how often the connection has done the like before. After the first time it knows the epoch; after the second
	// all its statements are prepared.
	warm int
	// refuses is whether the function refuses for good, and replays is whether the operation was done before.
	refuses, replays bool
	// remembered is whether this process did what is replayed, and so asks for it without a transaction.
	remembered bool
	// callerCommits is whether the caller sends the COMMIT, so that nobody looks up what became of it.
	callerCommits bool
	level         pgx.TxIsoLevel
	// boundaries is how many there must be at least, in both directions, so that the test cannot become empty.
	boundaries int
}

// wireHandle does the operation over a database handle of its own, of one connection.
type wireHandle struct {
	op    wireOp
	idle  func() bool // whether the connection was given back
	close func()
}

// wireOp does the operation; fn adds an order and returns its id, or refuses.
type wireOp func(ctx context.Context, req txn.Request, fn wireFunc) (id int64, outcome pgonce.Outcome, err error)

// wireFunc is the function, by what it does to the database: the transaction is pgx's or database/sql's.
type wireFunc func(insert func() (int64, error)) (int64, error)

func dialPool(t testing.TB, url string, op func(*pgxpool.Pool) wireOp) wireHandle {
	pool := openPool(t, url, func(c *pgxpool.Config) { c.MaxConns = 1 })
	return wireHandle{op(pool), func() bool { return pool.Stat().AcquiredConns() == 0 }, pool.Close}
}

func dialRun(t testing.TB, url string) wireHandle {
	return dialPool(t, url, runOp)
}

func runOp(pool *pgxpool.Pool) wireOp {
	return func(ctx context.Context, req txn.Request, fn wireFunc) (int64, pgonce.Outcome, error) {
		result, err := txn.Run(ctx, pool, req, func(ctx context.Context, tx pgx.Tx) (int64, error) {
			return fn(func() (int64, error) { return order(req.Key)(ctx, tx) })
		})
		return result.Value, result.Outcome, err
	}
}

func dialConsume(t testing.TB, url string) wireHandle {
	return dialPool(t, url, func(pool *pgxpool.Pool) wireOp {
		return func(ctx context.Context, req txn.Request, fn wireFunc) (id int64, _ pgonce.Outcome, err error) {
			outcome, err := txn.Consume(ctx, pool, req, func(ctx context.Context, tx pgx.Tx) error {
				_, err := fn(func() (int64, error) { return order(req.Key)(ctx, tx) })
				return err
			})
			return 0, outcome, err // it stores no result
		}
	})
}

func dialClaim(t testing.TB, url string) wireHandle {
	return dialPool(t, url, claimOp)
}

// claimOp is a caller who begins and commits.
func claimOp(pool *pgxpool.Pool) wireOp {
	return func(ctx context.Context, req txn.Request, fn wireFunc) (id int64, outcome pgonce.Outcome, err error) {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return 0, "", err
		}
		defer func() { _ = tx.Rollback(context.Background()) }()
		claimed, err := txn.Claim(ctx, tx, req)
		if err != nil {
			return 0, "", err
		}
		if claimed.Outcome == pgonce.Replay {
			return id, claimed.Outcome, claimed.Decode(&id)
		}
		if id, err = fn(func() (int64, error) { return order(req.Key)(ctx, tx) }); err != nil {
			return 0, "", err
		}
		if err := claimed.Complete(ctx, id); err != nil {
			return 0, "", err
		}
		if err := tx.Commit(ctx); err != nil { // which does not say what happened
			return 0, "", fmt.Errorf("%w: %w", pgonce.ErrOutcomeUnknown, err)
		}
		return id, claimed.Outcome, nil
	}
}

func dialRunSQL(t testing.TB, url string) wireHandle {
	pool := openSQL(t, url)
	pool.SetMaxOpenConns(1)
	op := func(ctx context.Context, req txn.Request, fn wireFunc) (int64, pgonce.Outcome, error) {
		result, err := txn.RunSQL(ctx, pool, req, func(ctx context.Context, tx *sql.Tx) (int64, error) {
			return fn(func() (int64, error) { return orderSQL(req.Key)(ctx, tx) })
		})
		return result.Value, result.Outcome, err
	}
	return wireHandle{op, func() bool { return pool.Stats().InUse == 0 }, func() { _ = pool.Close() }}
}

var wireFlows = []wireFlow{
	{name: "Run", dial: dialRun, warm: 2, boundaries: 30},
	{name: "Run serializable", dial: dialRun, warm: 2, level: pgx.Serializable, boundaries: 30},
	{name: "Run replayed", dial: dialRun, warm: 2, replays: true, boundaries: 16},
	{name: "Run replayed by a look-up", dial: dialRun, warm: 2, replays: true, remembered: true, boundaries: 9},
	{name: "Run refused", dial: dialRun, warm: 2, refuses: true, boundaries: 45},
	{name: "Consume", dial: dialConsume, warm: 2, boundaries: 25},
	{name: "RunSQL", dial: dialRunSQL, warm: 2, boundaries: 25},
	{name: "RunSQL replayed", dial: dialRunSQL, warm: 2, replays: true, boundaries: 13},
	{name: "Claim in the caller's transaction", dial: dialClaim, warm: 2, callerCommits: true, boundaries: 25},
}

// wire is a flow under test: a database that other flows use too, a proxy of its own before it, and what happened so far.
type wire struct {
	*shop
	flow   wireFlow
	proxy  *pgproxy.Proxy
	url    string
	name   string // of the application, by which the server tells this flow's connections from others'
	handle *wireHandle
	first  int // boundary of the sample, from 0 on, modulo the distance between two
	n      int // of cases

	acknowledged, cleared, repeated, unknown, plain int
}

func newWire(s *shop, t testing.TB, flow wireFlow) *wire {
	t.Helper()
	w := &wire{shop: &shop{s.DB, t, s.direct}, flow: flow, name: "wire " + flow.name}
	w.proxy, w.url = w.throughProxy()
	w.url += "&application_name=" + url.QueryEscape(w.name)
	return w
}

// told is what the caller was told, and how often the function ran to its end.
type told struct {
	id      int64
	outcome pgonce.Outcome
	err     error
	calls   int
}

func (r told) String() string {
	return fmt.Sprintf("%q, id %d, error %v, %d calls", r.outcome, r.id, r.err, r.calls)
}

func (w *wire) request(key string) txn.Request {
	req := request(key)
	req.TxOptions.IsoLevel = w.flow.level
	return req
}

// fn is the function of the flow. It counts its calls.
func (w *wire) fn(calls *int) wireFunc {
	return func(insert func() (int64, error)) (int64, error) {
		id, err := insert()
		if err == nil {
			*calls++
			if w.flow.refuses {
				err = txn.Final(errBusiness)
			}
		}
		return id, err
	}
}

// do prepares the handle and does the operation: arm is called between the two. The handle is that of the case before, whose
// lost connection must not come back, unless its first connection is what is looked at. It is the caller's to hang up.
func (w *wire) do(ctx context.Context, req txn.Request, arm func()) (told, wireHandle) {
	w.t.Helper()
	if w.handle == nil || w.flow.warm == 0 {
		handle := w.flow.dial(w.t, w.url)
		w.handle = &handle
	}
	handle := *w.handle
	for i := range w.flow.warm {
		key := fmt.Sprintf("%s, warm %d", req.Key, i)
		if w.flow.remembered {
			key = req.Key + ", warm" // so that the second time is a look-up
		}
		_, _, err := handle.op(w.t.Context(), w.request(key), w.fn(new(int)))
		require.Equal(w.t, w.flow.refuses, err != nil, err)
	}
	arm()
	var result told
	result.id, result.outcome, result.err = handle.op(ctx, req, w.fn(&result.calls))
	return result, handle
}

// hangUp says that the connection was given back, and closes the handle if the next case needs a new one.
func (w *wire) hangUp(handle wireHandle) {
	w.t.Helper()
	eventually(w.t, handle.idle, "a connection was not given back")
	if w.flow.warm == 0 {
		handle.close()
	}
}

// quiet is whether no transaction of the flow goes on.
func (w *wire) quiet() bool {
	return w.count("pg_stat_activity WHERE datname = current_database() AND application_name = $1 AND state <> 'idle'", w.name) == 0
}

// prepare names a key that no other test uses, since this process remembers those that it has seen finished. For a replay it
// does the operation: here, or somewhere else, of which this process knows nothing.
func (w *wire) prepare() (req txn.Request, id int64) {
	w.t.Helper()
	w.n++
	req = w.request(fmt.Sprintf("%s %d", w.t.Name(), w.n))
	if w.flow.replays {
		op := claimOp // which remembers nothing
		if w.flow.remembered {
			op = runOp
		}
		var err error
		id, _, err = op(w.Pool)(w.t.Context(), req, w.fn(new(int)))
		require.NoError(w.t, err)
	}
	return req, id
}

// learn returns the points of the conversation, undisturbed.
func (w *wire) learn() (points []pgproxy.Point) {
	w.t.Helper()
	var before [2]int
	req, id := w.prepare()
	result, handle := w.do(w.t.Context(), req, func() {
		before = [2]int{w.proxy.Messages(pgproxy.Client), w.proxy.Messages(pgproxy.Server)}
	})
	eventually(w.t, handle.idle, "a connection was not given back")
	for _, from := range []pgproxy.Side{pgproxy.Client, pgproxy.Server} {
		n := w.proxy.Messages(from) - before[from]
		for i := 1; i <= n; i++ {
			points = append(points, pgproxy.Point{From: from, N: i})
		}
		points = append(points, pgproxy.Point{From: from, N: n, After: true})
		w.t.Logf("%d messages of the %v", n, from)
	}
	w.hangUp(handle)
	w.judge(req, id, result, "undisturbed")
	require.Equal(w.t, 1, w.acknowledged)
	w.acknowledged = 0
	require.GreaterOrEqual(w.t, len(points), w.flow.boundaries)
	return points
}

// sample is those of the points that are tried: all, or else some that are spread evenly, and the end of the conversation: the
// points before the last two messages of either side, where COMMIT may be kept from the server or its answer from the client;
// and the very last one, where no other is sure to let the answer through.
func (w *wire) sample(points []pgproxy.Point) (tried []pgproxy.Point) {
	last := map[pgproxy.Side]int{}
	for _, point := range points {
		last[point.From] = point.N
	}
	stride := len(points) / spread
	for i, point := range points {
		commit := !w.flow.replays && !point.After && point.N >= last[point.From]-1
		whole := (w.flow.replays || w.flow.callerCommits) && i == len(points)-1
		if *slow || commit || whole || i%stride == w.first%stride {
			tried = append(tried, point)
		}
	}
	w.t.Logf("%d of %d boundaries", len(tried), len(points))
	return tried
}

// judge compares what the caller was told with what happened, which the same operation tells when it is done again past the
// proxy.
func (w *wire) judge(req txn.Request, replayed int64, result told, when any) {
	w.t.Helper()
	var again told
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	again.id, again.outcome, again.err = runOp(w.Pool)(ctx, req, w.fn(&again.calls))
	w.compare(req, replayed, result, again, when)
}

func (w *wire) compare(req txn.Request, replayed int64, result, again told, when any) {
	w.t.Helper()
	w.t.Logf("%v: %v; again: %v", when, result, again)
	var happened bool // before the second time
	switch {
	case w.flow.refuses:
		var failed *pgonce.FailedError
		require.ErrorAs(w.t, again.err, &failed, when)
		require.Equal(w.t, errBusiness.Error(), failed.Message, when)
		happened = failed.Replayed
		require.Zero(w.t, w.count("public.orders WHERE ref = $1", req.Key), when)
	default:
		require.NoError(w.t, again.err, when)
		happened = again.outcome == pgonce.Replay
		require.Equal(w.t, 1, w.count("public.orders WHERE ref = $1", req.Key), "%v: orders", when)
		require.Equal(w.t, 1, w.count("once_data.orders WHERE key = $1 AND state = 'done'", req.Key), "%v: keys", when)
	}
	require.Equal(w.t, 1, w.count("once_data.orders WHERE key = $1", req.Key), when)

	stored := !w.flow.refuses && w.flow.name != "Consume"
	if stored {
		require.Equal(w.t, 1, w.count("public.orders WHERE ref = $1 AND id = $2", req.Key, again.id), "%v: the result is that of the order", when)
	}
	switch {
	case w.flow.replays:
		require.True(w.t, happened)
		require.Equal(w.t, replayed, again.id, when)
		require.Zero(w.t, result.calls, "%v: what is done is not done again", when)
		if result.err == nil {
			w.acknowledged++
			require.Equal(w.t, pgonce.Replay, result.outcome, when)
			require.Equal(w.t, again.id, result.id, when)
		}
	case result.err == nil || isRefusal(result.err):
		w.acknowledged++
		require.True(w.t, happened, "%v: the caller was told that it is done", when)
		require.Equal(w.t, w.flow.refuses, result.err != nil, when)
		if !w.flow.refuses {
			require.Equal(w.t, pgonce.Fresh, result.outcome, "%v: nobody else has done it", when)
		}
		if stored {
			require.Equal(w.t, again.id, result.id, "%v: the same result", when)
		}
		if result.calls > 1 {
			w.repeated++
		} else {
			w.cleared++
		}
	case errors.Is(result.err, pgonce.ErrOutcomeUnknown):
		w.unknown++
		require.NotZero(w.t, result.calls, "%v: nothing was begun that could be unknown", when)
	default:
		w.plain++
		require.False(w.t, happened, "%v: the caller was told that it failed: %v", when, result.err)
	}
}

// isRefusal is whether the caller was told of the refusal as its own.
func isRefusal(err error) bool {
	var failed *pgonce.FailedError
	return errors.As(err, &failed) && !failed.Replayed && errors.Is(err, errBusiness)
}

// eachWireFlow tests the flows side by side. Their samples begin at different boundaries, from first on.
func eachWireFlow(t *testing.T, flows []wireFlow, first int, test func(w *wire)) {
	t.Helper()
	s := newShop(t)
	t.Cleanup(func() { s.requireIdle(s.Pool) }) // once all flows are over
	for i, flow := range flows {
		t.Run(flow.name, func(t *testing.T) {
			t.Parallel()
			w := newWire(s, t, flow)
			w.first = first + 3*i
			test(w)
			t.Logf("%d acknowledged, of these %d after a repetition; %d unknown, %d failed", w.acknowledged, w.repeated, w.unknown, w.plain)
		})
	}
}

// The connection is lost at each boundary of the conversation.
func TestWireCutAtEveryMessage(t *testing.T) {
	t.Parallel()
	eachWireFlow(t, append(wireFlows, wireFlow{
		name: "Run from the first connection on", dial: dialRun, boundaries: 80,
	}), 0, func(w *wire) {
		for i, point := range w.sample(w.learn()) {
			req, id := w.prepare()
			result, handle := w.do(w.t.Context(), req, func() { w.proxy.CutAt(point) })
			w.hangUp(handle)
			w.judge(req, id, result, point)
			require.Equal(w.t, i+1, w.proxy.Cuts(), point)
		}
		// Every kind of end was met: told at once, and, but for a replay, cleared up after the cut and plainly failed.
		require.NotZero(w.t, w.acknowledged)
		switch {
		case w.flow.replays:
		case w.flow.callerCommits:
			require.NotZero(w.t, w.unknown)
			require.NotZero(w.t, w.plain)
		default:
			require.Zero(w.t, w.unknown, "with a pool, all that is open can be looked up")
			require.NotZero(w.t, w.plain)
			require.NotZero(w.t, w.repeated, "a COMMIT that was lost on the way there")
			require.Greater(w.t, w.cleared, 1, "a COMMIT whose answer was lost")
		}
	})
}

// The line stands still at each boundary until the caller's context ends; what was held arrives late.
func TestWireStallAtEveryMessage(t *testing.T) {
	t.Parallel()
	eachWireFlow(t, wireFlows, 2, func(w *wire) {
		for _, point := range w.sample(w.learn()) {
			for timeout := 20 * time.Millisecond; !w.stallAt(point, timeout); timeout *= 4 {
				require.Less(w.t, timeout, patience, point)
			}
		}
		if !w.flow.replays {
			require.NotZero(w.t, w.plain)
			require.NotZero(w.t, w.unknown)
		}
	})
}

// stallAt returns false if the operation did not come to the point, because the machine was too slow for the timeout of what
// goes on after the end of the context.
func (w *wire) stallAt(point pgproxy.Point, timeout time.Duration) bool {
	w.t.Helper()
	req, id := w.prepare()
	req.CommitTimeout = timeout
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	var stall *pgproxy.Stall
	result, handle := w.do(ctx, req, func() {
		stall = w.proxy.StallAt(point)
		go func() {
			select {
			case <-stall.Reached():
				cancel()
			case <-ctx.Done():
				return
			}
			time.Sleep(10 * timeout)
			stall.Release() // by now only the rollback behind a replay of RunSQL is left, whose patience is of seconds
		}()
	})
	reached := func() bool {
		select {
		case <-stall.Reached():
			return true
		default:
			return false
		}
	}
	eventually(w.t, func() bool { return reached() || handle.idle() }, "a connection was not given back") // the rollback comes late
	w.proxy.Disarm()

	// Somebody tries at once, while the server may still know nothing of it.
	req.CommitTimeout = patience
	strict := req
	strict.Strict = true
	var again told
	again.id, again.outcome, again.err = runOp(w.Pool)(context.Background(), strict, w.fn(&again.calls))
	stall.Release()
	w.hangUp(handle)
	if isInProgress(again.err) {
		w.judge(req, id, result, point)
	} else {
		w.compare(req, id, result, again, point)
		w.settled(req, again)
	}
	return reached()
}

// settled says that what was done remains done once, also when everything that was held has arrived.
func (w *wire) settled(req txn.Request, first told) {
	w.t.Helper()
	eventually(w.t, w.quiet, "a transaction was left open")
	var last told
	last.id, last.outcome, last.err = runOp(w.Pool)(context.Background(), req, w.fn(&last.calls))
	require.Zero(w.t, last.calls)
	require.Equal(w.t, first.id, last.id)
	require.Equal(w.t, w.count("public.orders WHERE ref = $1", req.Key) == 0, w.flow.refuses)
	require.LessOrEqual(w.t, w.count("public.orders WHERE ref = $1", req.Key), 1)
}

// The COMMIT stands still, its caller asks on another connection what became of it, and has to wait for the answer: the
// COMMIT arrives late, or never.
func TestWireACommitThatArrivesLate(t *testing.T) {
	t.Parallel()
	for name, arrives := range map[string]bool{"late": true, "never": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWire(newShop(t), t, wireFlows[0])
			points := w.learn()
			last := 0 // message of the client: it belongs to COMMIT
			for _, point := range points {
				if point.From == pgproxy.Client {
					last = point.N
				}
			}
			pool := openPool(t, w.url, func(c *pgxpool.Config) { c.MaxConns = 2 })
			for i := range w.flow.warm {
				_, err := txn.Run(t.Context(), pool, request(fmt.Sprint(t.Name(), ", warm ", i)), order("warm"))
				require.NoError(t, err)
			}
			stall := w.proxy.StallAt(pgproxy.Point{From: pgproxy.Client, N: last - 3}) // Bind, Describe, Execute, Sync
			req, calls := request(t.Name()), 0                                         // a key of this test's own: see prepare
			req.CommitTimeout = 2 * time.Second                                        // after the completion, which the end of the call would have canceled
			type answer struct {
				txn.Result[int64]
				error
			}
			answered := async(func() answer {
				result, err := txn.Run(context.Background(), pool, req, func(ctx context.Context, tx pgx.Tx) (int64, error) {
					calls++
					return order("late")(ctx, tx)
				})
				return answer{result, err}
			})
			receive(t, stall.Reached())
			w.awaitLock("advisory")
			if arrives {
				stall.Release()
			} else {
				stall.Cut()
			}
			got := receive(t, answered)
			require.NoError(t, got.error)
			require.Equal(t, pgonce.Fresh, got.Outcome, "it was this call's own")
			require.Equal(t, map[bool]int{true: 1, false: 2}[arrives], calls)
			require.Equal(t, 1, w.count("public.orders WHERE ref = 'late' AND id = $1", got.Value))
			require.Equal(t, 1, w.count("public.orders WHERE ref = 'late'"))
			w.requireIdle(pool)
		})
	}
}
