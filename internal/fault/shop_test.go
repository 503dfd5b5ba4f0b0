//go:build linux

package fault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/archive"
	"github.com/pgonce/pgonce/internal/cluster"
)

const (
	workers = 6

	// patience bounds every wait of a test. It is reached only by what hangs.
	patience = 2 * time.Minute

	// slice is a generation of the scope s; its window is six of them.
	slice = time.Hour

	// eraSlices is how far the time of maintenance advances in one era. Keys are retried in the era after their own, so
	// that two eras must be no longer than the window.
	eraSlices = 3

	// sliceAcks is after how many acknowledgements that time advances by a slice within an era.
	sliceAcks = 25
)

// shop is a business on a server that is going to be broken. An era is a stretch of load with its faults, ended by verify.
type shop struct {
	*cluster.Cluster
	t        testing.TB
	handlers []handler
	rec      *record
	pool     *pgxpool.Pool
	era      int
	eraAcks  int // acknowledgements before this era
	old      []string
	held     []string // keys that were claimed and never completed
	faults   int
}

// open is a shop on a cluster whose server runs.
func open(t testing.TB, c *cluster.Cluster, handlers []handler) *shop {
	t.Helper()
	s := &shop{Cluster: c, t: t, handlers: handlers, rec: newRecord()}
	s.pool = newPool(t, c.URL("shop"))
	return s
}

// newShop is a shop on a cluster of its own.
func newShop(t testing.TB) *shop {
	t.Helper()
	c := newCluster(t, "")
	require.NoError(t, c.Start())
	return open(t, c, sound)
}

func newPool(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	config.MaxConns = workers + 4
	config.ConnConfig.RuntimeParams["application_name"] = "load"
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// load is workers and a maintainer at work.
type load struct {
	*shop
	cancel func()
	done   sync.WaitGroup
	next   atomic.Int64
}

// hold claims a key that is never completed: for as long as the test lasts nobody else may have it.
func (s *shop) hold() {
	s.t.Helper()
	key := fmt.Sprintf("held in era %d", s.era)
	if !slices.Contains(s.held, key) {
		require.Equal(s.t, "fresh", s.outcome(key))
		s.held = append(s.held, key)
	}
}

// start starts the load of an era.
func (s *shop) start() *load {
	s.t.Helper()
	s.hold()
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{shop: s, cancel: cancel}
	s.eraAcks = s.rec.acknowledged()
	for range workers {
		l.done.Go(func() { l.work(ctx) })
	}
	l.done.Go(func() { l.maintain(ctx) })
	s.t.Cleanup(l.stop)
	return l
}

// stop ends the load. Operations that have begun come to their end.
func (l *load) stop() {
	l.cancel()
	l.done.Wait()
}

// work does operations: new keys, keys that others are at just now, and keys of the era before.
func (l *load) work(ctx context.Context) {
	for ctx.Err() == nil {
		if rand.N(20) == 0 {
			l.tryHeld()
		}
		var key string
		var h handler
		if i := l.next.Load(); len(l.old) > 0 && rand.N(10) == 0 {
			key = l.old[rand.N(len(l.old))]
			h = l.rec.handler(key)
		} else {
			if i == 0 || rand.N(2) == 0 {
				i = l.next.Add(1)
			} else {
				i = max(1, i-rand.Int64N(workers))
			}
			key = fmt.Sprintf("era %d, %d", l.era, i)
			h = l.handlers[int(i)%len(l.handlers)]
		}
		if l.try(key, h) != nil {
			time.Sleep(5 * time.Millisecond) // the server may be down
		}
	}
}

// tryHeld notes if somebody can have a key that is never completed.
func (l *load) tryHeld() {
	key := l.held[rand.N(len(l.held))]
	var outcome string
	err := l.pool.QueryRow(context.Background(), "SELECT outcome::text FROM once.claim('s', $1)", key).Scan(&outcome)
	if err == nil && outcome == "fresh" {
		l.rec.surprise(key + ": fresh")
	}
}

// try does one operation. It is not ended with the load, as a client whose answer is still to come would not be.
func (s *shop) try(key string, h handler) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s.rec.begin(key, h)
	value, err := h.do(ctx, s.pool, key)
	s.rec.end(key, value, err)
	return err
}

// maintain maintains all the time. Its errors are those of a server that is being broken.
func (l *load) maintain(ctx context.Context) {
	for ctx.Err() == nil {
		_, _ = archive.Maintain(ctx, l.pool, archive.Options{Wait: 100 * time.Millisecond, Now: l.now()})
		time.Sleep(10 * time.Millisecond)
	}
}

// now is the time of maintenance.
func (s *shop) now() time.Time {
	passed := s.era*eraSlices + min(eraSlices-1, (s.rec.acknowledged()-s.eraAcks)/sliceAcks)
	return time.Now().Add(time.Duration(passed) * slice)
}

// await returns after n more acknowledgements.
func (l *load) await(n int) {
	l.t.Helper()
	n += l.rec.acknowledged()
	eventually(l.t, func() bool { return l.rec.acknowledged() >= n }, "the load does not go on")
}

func eventually(t testing.TB, condition func() bool, what string) {
	t.Helper()
	require.Eventually(t, condition, patience, 5*time.Millisecond, what)
}

// awaitTrue returns when a query answers true. The server may be out of reach meanwhile.
func awaitTrue(t testing.TB, pool *pgxpool.Pool, what, sql string, args ...any) {
	t.Helper()
	eventually(t, func() bool {
		var yes bool
		err := pool.QueryRow(context.Background(), sql, args...).Scan(&yes)
		return err == nil && yes
	}, what)
}

// verify checks, retries every operation, checks again, and begins the next era. The load must have stopped.
func (s *shop) verify() {
	s.t.Helper()
	require.Empty(s.t, s.wrong(false), "after the fault")
	s.retryAll()
	require.Empty(s.t, s.wrong(true), "after retrying everything")
	s.maintainToTheEnd()
	require.Empty(s.t, s.wrong(true), "after maintenance")
	for _, key := range s.held {
		require.Contains(s.t, []string{"in_progress", "parked"}, s.outcome(key), key)
	}
	s.rec.forget(s.old)
	s.old = s.rec.keys()
	s.era++
	s.eraAcks = s.rec.acknowledged()
}

// outcome claims a key, and commits.
func (s *shop) outcome(key string) (outcome string) {
	s.t.Helper()
	require.NoError(s.t, s.pool.QueryRow(context.Background(), "SELECT outcome::text FROM once.claim('s', $1)", key).Scan(&outcome))
	return outcome
}

// wrong is what the checker finds. A first answer may come from connections that the fault has broken.
func (s *shop) wrong(all bool) []string {
	s.t.Helper()
	s.pool.Reset()
	wrong, err := s.rec.check(context.Background(), s.pool, all)
	require.NoError(s.t, err)
	return wrong[:min(len(wrong), 10)]
}

// retryAll does every operation again until it is acknowledged.
func (s *shop) retryAll() {
	s.t.Helper()
	keys := make(chan string)
	var done sync.WaitGroup
	failed := make(chan error, workers)
	for range workers {
		done.Go(func() {
			for key := range keys {
				var err error
				for range 20 {
					if err = s.try(key, s.rec.handler(key)); err == nil {
						break
					}
				}
				if err != nil {
					select {
					case failed <- fmt.Errorf("%s: %w", key, err):
					default:
					}
				}
			}
		})
	}
	for _, key := range s.rec.keys() {
		keys <- key
	}
	close(keys)
	done.Wait()
	close(failed)
	require.NoError(s.t, <-failed, "an operation cannot be retried")
}

// maintainToTheEnd takes every step that is due.
func (s *shop) maintainToTheEnd() {
	s.t.Helper()
	s.eraAcks = s.rec.acknowledged() - eraSlices*sliceAcks // the end of the era
	report, err := archive.Maintain(context.Background(), s.pool, archive.Options{Wait: patience, Now: s.now()})
	require.NoError(s.t, err)
	require.Empty(s.t, report.With(archive.Busy, archive.Waiting, archive.Missing))
}

// finish says that maintenance went through all its steps, as far as the number of eras lets it, and logs what the test has seen.
func (s *shop) finish() {
	s.t.Helper()
	var rotated, drained, carried, dropped int
	require.NoError(s.t, s.pool.QueryRow(context.Background(), `SELECT max(generation) - 1, count(drained_at), sum(carried), count(dropped_at)
		FROM once.generation`).Scan(&rotated, &drained, &carried, &dropped))
	require.GreaterOrEqual(s.t, rotated, s.era)
	require.GreaterOrEqual(s.t, drained, s.era)
	if s.era > 2 {
		require.Positive(s.t, carried)
		require.Positive(s.t, dropped)
	}
	s.t.Logf("%d faults, %d operations, %d acknowledgements, %d errors; %d rotations, %d generations dropped, %d rows carried over",
		s.faults, s.rec.totalKeys, s.rec.acks, s.rec.errors, rotated, dropped, carried)
}

// sessions are the process ids that a query over pg_stat_activity finds.
func (s *shop) sessions(where string) []int {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var pids []int
	// The server may be in recovery from the last kill.
	eventually(s.t, func() bool {
		err := s.pool.QueryRow(ctx, "SELECT coalesce(array_agg(pid), '{}') FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND "+where).
			Scan(&pids)
		return err == nil && len(pids) > 0
	}, "no session: "+where)
	return pids
}
