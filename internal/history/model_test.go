package history

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
)

// window is that of the scope under test, which has that many generations: one lives a quarter of it.
const (
	window      = 1200 * time.Millisecond
	generations = 4
)

// slack is allowed between the harness's clock and the database's.
const slack = 20 * time.Millisecond

// phase is where a key stands.
type phase string

const (
	absent  phase = ""
	pending phase = "in_progress"
	parked  phase = "parked"
	done    phase = "done"
	failed  phase = "failed"
)

// state is what the model knows of one key. Times are of the harness's clock, and lower bounds.
type state struct {
	phase             phase
	id                string // of the claim; "" where the winner could not see it
	result            string
	fingerprint       string // "" is not compared
	claimed, finished time.Duration
	until             time.Duration // when its lease may be over, and not before; zero without a lease
	attempt           int
}

type kind string

const (
	fresh        kind = "fresh"         // won, perhaps settled in the same transaction, and committed
	freshUndone  kind = "fresh undone"  // won, and rolled back afterwards
	settle       kind = "settle"        // a claim of an earlier transaction ended, and committed
	settleUndone kind = "settle undone" // the same, rolled back afterwards
	lost         kind = "lost"          // a settlement refused: not the current claim
	renew        kind = "renew"         // a lease renewed, and committed
	renewLost    kind = "renew lost"    // the same, refused: not the current claim, or parked
	answer       kind = "answer"        // what a claim that was not fresh was told
	found        kind = "found"         // a row that lookup returned
	notFound     kind = "not found"     // lookup returned none
)

// released is what a claim that was given back is settled as; otherwise it is settled as done or failed.
const released phase = "released"

// op is one operation on one key.
type op struct {
	key     string
	kind    kind
	outcome string // of an answer
	phase   phase  // what a claim was settled as, absent: not yet; the state of a row found

	id, result, fingerprint string
	claimed, finished       time.Duration

	// until is when a lease that was given is over, or later; zero for none. attempt is above 1 after a takeover.
	until   time.Duration
	attempt int
	// decided is when the answer had come. Leases are judged by then, by a clock that nobody moves.
	decided time.Duration

	// stable: at READ COMMITTED, where every statement sees what was committed before it.
	stable bool

	// unread: the result was not looked at.
	unread bool

	// latest is the latest time that maintenance may have acted upon before the operation returned. It decides what may have
	// been forgotten.
	latest time.Duration
}

// model is the sequential specification of one key:
//
//	absent ── fresh ──> in progress ── settle ──> done, failed ── window ──> absent
//	                        │  └────── release ──> absent
//	                     (window, and its lease is over)
//	                        └──> parked, from where it is settled or released like one in progress
//
// A claim may have a lease. When that is over another claim takes the key over: it is fresh, has the next attempt, and from then on the
// earlier one is nothing.
//
// A transaction takes effect at its commit. From its claim to there it holds the key's lock, so the decision fresh, too, is
// true at the commit, at every isolation level: a win is one operation that lasts as long as the COMMIT. A win that is rolled
// back changes nothing, but the key must have been free when it was given. The same goes for settlements.
//
// What is read is true of the moment that its snapshot shows. At READ COMMITTED that is inside the call. Above, it may be as
// old as the transaction, so the operation is recorded from there on: a replay from an old snapshot is still the true
// winner's. In progress is advice: another transaction holds the key's lock, or did when the snapshot was taken. Above READ
// COMMITTED anything may be behind it; at READ COMMITTED a key that has been finished all the while must be replayed. A claim above READ
// COMMITTED that its snapshot cannot decide is a serialization failure, which says nothing.
//
// A finished key may be forgotten once the window has passed since it was finished, by the latest clock that a maintainer was
// given; it need not be, so a replay stays right until somebody wins the key anew. One in progress is never forgotten. When the
// window has passed since its claim, its generation may expire: then the row moves to another generation, and is parked. A
// look-up that began before the move may miss the row, and a claim that meets the lock may take it for one in progress.
var model = porcupine.Model{
	Init:              func() any { return state{} },
	Step:              func(s, input, _ any) (bool, any) { return step(s.(state), input.(op)) },
	DescribeOperation: func(input, _ any) string { return input.(op).String() },
	DescribeState:     func(s any) string { return s.(state).String() },
}

func step(s state, o op) (bool, state) {
	switch o.kind {
	case fresh:
		next := state{phase: pending, id: o.id, fingerprint: o.fingerprint, claimed: o.claimed, until: o.until, attempt: 1}
		switch {
		case o.attempt > 1 && s.mayBeTakenOver(o):
			next.fingerprint, next.claimed, next.attempt = s.fingerprint, s.claimed, o.attempt // it stays in its generation
		case o.attempt > 1 || !s.free(o):
			return false, s
		}
		if o.phase == released {
			return true, state{}
		}
		if o.phase != absent {
			next.phase, next.result, next.finished = o.phase, o.result, o.finished
		}
		return true, next
	case freshUndone:
		if o.attempt > 1 {
			return s.mayBeTakenOver(o), s
		}
		return s.free(o), s
	case settle:
		if !s.unfinished() || s.id != o.id {
			return false, s
		}
		if o.phase == released {
			return true, state{}
		}
		s.phase, s.result, s.finished = o.phase, o.result, o.finished
		return true, s
	case settleUndone:
		return s.unfinished() && s.id == o.id, s
	case lost:
		return !(s.unfinished() && s.id == o.id), s
	case renew:
		if s.phase != pending || s.id != o.id {
			return false, s
		}
		s.until = o.until
		return true, s
	case renewLost:
		return s.phase != pending || s.id != o.id || s.mayBeParked(o), s
	case answer:
		return stepAnswer(s, o)
	case found:
		return stepFound(s, o)
	case notFound:
		return s.free(o) || s.expired(o), s
	}
	panic("unknown kind " + o.kind)
}

func stepAnswer(s state, o op) (bool, state) {
	differs := s.differs(o)
	switch o.outcome {
	case "mismatch":
		return s.phase != absent && differs, s
	case "in_progress":
		return !o.stable || s.unfinished() || s.free(o) || s.expired(o), s
	case "replay":
		return !differs && s.phase == done && s.names(o) && (o.unread || s.result == o.result), s
	case "failed":
		return !differs && s.phase == failed && s.names(o) && s.result == o.result, s
	case "parked":
		if differs || s.phase != parked && !s.mayBeParked(o) {
			return false, s
		}
		s.phase = parked
		return true, s
	}
	return false, s // no such outcome
}

func stepFound(s state, o op) (bool, state) {
	if o.phase == parked && s.mayBeParked(o) {
		s.phase = parked
	}
	return s.phase != absent && s.phase == o.phase && s.names(o) && s.result == o.result, s
}

// free reports whether the key may be won: it is absent, or forgotten.
func (s state) free(o op) bool {
	return s.phase == absent || (s.phase == done || s.phase == failed) && s.finished+window <= o.latest+slack
}

func (s state) differs(o op) bool {
	return s.fingerprint != "" && o.fingerprint != "" && s.fingerprint != o.fingerprint
}

// mayBeTakenOver reports whether the claim's lease may be over.
func (s state) mayBeTakenOver(o op) bool {
	return s.phase == pending && !s.differs(o) && o.attempt == s.attempt+1 && s.until > 0 && s.until <= o.decided+slack
}

// mayBeParked reports whether the generation of an unfinished claim may have expired around it.
func (s state) mayBeParked(o op) bool {
	return s.phase == pending && s.expired(o) && s.until <= o.decided+slack
}

func (s state) unfinished() bool { return s.phase == pending || s.phase == parked }

// expired reports whether the generation of the claim may have been retired.
func (s state) expired(o op) bool { return s.claimed+window <= o.latest+slack }

// names reports whether the operation speaks of this claim. Some do not say of which: parked and Go's.
func (s state) names(o op) bool { return s.id == "" || o.id == "" || s.id == o.id }

func (s state) String() string {
	if s.phase == absent {
		return "absent"
	}
	return fmt.Sprintf("%s %.8s/%d %s [%s] claimed %v until %v finished %v", s.phase, s.id, s.attempt, s.result, s.fingerprint, s.claimed, s.until, s.finished)
}

func (o op) String() string {
	what := string(o.kind)
	if o.outcome != "" {
		what = o.outcome
	}
	return fmt.Sprintf("%s %s %.8s/%d %s [%s]", what, o.phase, o.id, o.attempt, o.result, o.fingerprint)
}
