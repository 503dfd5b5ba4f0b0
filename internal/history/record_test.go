package history

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// forever is when an operation returns that was never answered.
const forever = time.Duration(1 << 62)

// clock measures from its making, and never runs ahead of the database's.
type clock struct {
	start time.Time
	base  time.Time // the database's time at start, or a little earlier
}

func newClock(t testing.TB, pool *pgxpool.Pool) *clock {
	t.Helper()
	c := &clock{start: time.Now()}
	var now time.Time
	require.NoError(t, pool.QueryRow(context.Background(), "SELECT pg_catalog.clock_timestamp()").Scan(&now))
	c.base = now.Add(-c.now())
	return c
}

func (c *clock) now() time.Duration { return time.Since(c.start) }

// event is an operation with its times.
type event struct {
	op
	call, ret time.Duration
	deferred  bool // not written before it is settled
	maybe     bool // that it was won is not known, unless it turns out to have committed
}

// ending is what a client knows of its transaction.
type ending int

const (
	committed  ending = iota
	rolledBack        // by the client, by an error or because the connection died before COMMIT
	unknown           // the connection died while COMMIT was under way
)

// transaction is what a client did in one transaction and took effect, or not, at its end.
type transaction struct {
	tag       string
	ending    ending
	effects   []event // with the times of their own statements
	call, ret time.Duration
}

// totals are what a run has done.
type totals struct {
	operations, transactions, wins, takeovers, replays        int
	rolledBack, serialization, deadlocks, terminated, unknown int
	rotations, retirements, carried                           int
}

func (n totals) String() string {
	return fmt.Sprintf("%d operations in %d transactions: %d wins, %d takeovers, %d replays; %d rolled back, %d serialization failures, "+
		"%d deadlocks, %d connections lost, %d commits unanswered; %d rotations, %d retirements, %d rows carried over",
		n.operations, n.transactions, n.wins, n.takeovers, n.replays, n.rolledBack, n.serialization, n.deadlocks, n.terminated, n.unknown,
		n.rotations, n.retirements, n.carried)
}

// leap is a clock that a maintainer was given.
type leap struct{ at, latest time.Duration }

// unsettled is a claim that was committed in progress.
type unsettled struct {
	key, id string
	claimed time.Duration
	attempt int
	leased  bool
}

// recorder collects the history of one round. Its methods are safe for concurrent use.
type recorder struct {
	clock *clock

	mu           sync.Mutex
	events       []event
	transactions []transaction
	leaps        []leap
	open         []unsettled // to be settled by right
	stale        []unsettled // settled, released or undone: their ids must settle nothing
	taken        [8]string   // the keys that were given last, committed or not
	takenCount   int
	problems     []string // what pgonce must never do and needs no history to be seen
	trouble      []error  // what keeps the harness itself from working
	n            totals
	tags         int
}

// tag is a name that nothing else in the database has.
func (r *recorder) tag(round uint64) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tags++
	return fmt.Sprintf("%x-%d", round, r.tags)
}

func (r *recorder) add(events ...event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, events...)
}

func (r *recorder) end(tx transaction) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.transactions = append(r.transactions, tx)
	for _, e := range tx.effects {
		claim := unsettled{e.key, e.id, e.claimed, e.attempt, e.until > 0}
		switch {
		case e.id == "" || tx.ending == unknown:
		case e.kind == fresh && tx.ending == committed && e.phase == absent:
			r.open = append(r.open, claim)
		case e.kind == renew, e.kind == settle && tx.ending == rolledBack:
			r.open = append(r.open, claim)
		default:
			r.stale = append(r.stale, claim)
		}
	}
}

// leapTo notes a clock before a maintainer is given it.
func (r *recorder) leapTo(latest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaps = append(r.leaps, leap{r.clock.now(), latest})
}

// count changes the totals.
func (r *recorder) count(f func(*totals)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.n)
}

// problem notes what must never happen.
func (r *recorder) problem(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// fault notes that the harness itself does not work: that is neither for nor against pgonce.
func (r *recorder) fault(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trouble = append(r.trouble, err)
}

func (r *recorder) broken() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.problems)+len(r.trouble) > 0
}

// take notes that a key was given.
func (r *recorder) take(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken[r.takenCount%len(r.taken)] = key
	r.takenCount++
}

// lastTaken is a key that was given a moment ago: its winner is still at work, or has committed after others took their snapshot.
func (r *recorder) lastTaken(random *rand.Rand) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken[random.IntN(len(r.taken))]
}

// takeOpen returns a claim to be settled, if there is one: any, or the oldest, once its generation is about to expire.
func (r *recorder) takeOpen(random *rand.Rand) (unsettled, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.open) == 0 {
		return unsettled{}, false
	}
	i := random.IntN(len(r.open))
	if random.IntN(2) == 0 {
		for j, c := range r.open {
			if c.claimed < r.open[i].claimed {
				i = j
			}
		}
		if r.clock.now()-r.open[i].claimed < window*3/4 {
			return unsettled{}, false // let it grow old
		}
	}
	claim := r.open[i]
	r.open = append(r.open[:i], r.open[i+1:]...)
	return claim, true
}

// takeLeased returns a leased claim, if there is one.
func (r *recorder) takeLeased(random *rand.Rand) (unsettled, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range random.Perm(len(r.open)) {
		if claim := r.open[i]; claim.leased {
			r.open = slices.Delete(r.open, i, i+1)
			return claim, true
		}
	}
	return unsettled{}, false
}

// giveBack returns a claim that was taken and not tried.
func (r *recorder) giveBack(claim unsettled) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = append(r.open, claim)
}

// takeStale returns a claim that is over, of a key which another claim holds, where there is one.
func (r *recorder) takeStale(random *rand.Rand) (unsettled, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.stale) == 0 {
		return unsettled{}, false
	}
	stale := r.stale[len(r.stale)-1-random.IntN(min(len(r.stale), 40))] // the keys of older ones are hardly used any more
	for _, i := range random.Perm(len(r.stale)) {
		if slices.ContainsFunc(r.open, func(o unsettled) bool { return o.key == r.stale[i].key && o.id != r.stale[i].id }) {
			return r.stale[i], true
		}
	}
	return stale, true
}
