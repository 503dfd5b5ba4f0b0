package history

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jackc/pgx/v5"
)

// verdict is what the judge says of one round.
type verdict struct {
	violations   []string
	inconclusive []string // keys whose check took too long: neither right nor wrong
	picture      string   // file with the first violation, drawn
}

// checkTimeout is how long the check of one key may take. Keys have a few hundred operations; nearly all take milliseconds.
const checkTimeout = 20 * time.Second

// judge looks at the finished round. draw: write a picture of the first violation.
func (r *round) judge(ctx context.Context, draw bool) (verdict, error) {
	v := verdict{violations: slices.Clone(r.problems)}
	wins, marks, err := r.business(ctx)
	if err != nil {
		return v, err
	}
	events := slices.Clone(r.events)
	var won []event // the committed wins, one for each business row
	ends := map[string]event{}
	for _, tx := range r.transactions {
		switch {
		case tx.ending == committed && len(tx.effects) > 0 && !marks[tx.tag]:
			v.violations = append(v.violations, fmt.Sprintf("lost: transaction %s was committed, and is not there", tx.tag))
		case tx.ending == rolledBack && marks[tx.tag]:
			v.violations = append(v.violations, fmt.Sprintf("transaction %s was rolled back, and is there", tx.tag))
		}
		for _, e := range tx.effects {
			if !marks[tx.tag] {
				if !e.maybe {
					events = append(events, e.undone())
				}
				continue
			}
			if e.call = tx.call; tx.ending == unknown {
				e.ret = forever
			} else {
				e.ret = tx.ret
			}
			events = append(events, e)
			switch e.kind {
			case fresh:
				won = append(won, e)
				wins[e.key+" "+tx.tag]--
			case settle:
				ends[e.id] = e
			}
		}
	}
	for row, n := range wins {
		if n != 0 {
			v.violations = append(v.violations, fmt.Sprintf("business: %d rows too many of key and transaction %s", n, row))
		}
	}
	latest := r.latest()
	for i := range events {
		events[i].latest = latest(events[i].ret)
		if events[i].decided == 0 {
			events[i].decided = events[i].ret
		}
	}
	r.n.operations += len(events)
	r.n.wins += len(won)
	v.violations = append(v.violations, countWins(won, ends, latest)...)
	v.violations = append(v.violations, foreignResults(events)...)
	r.checkKeys(events, &v, draw)
	return v, nil
}

// business reads what was committed: the rows of each key and transaction, and the transactions.
func (r *round) business(ctx context.Context) (wins map[string]int, marks map[string]bool, err error) {
	wins, marks = map[string]int{}, map[string]bool{}
	rows, err := r.pool.Query(ctx, "SELECT key || ' ' || tag FROM public.win WHERE starts_with(tag, $1)", r.prefix())
	if err != nil {
		return nil, nil, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		wins[name]++
	}
	rows, err = r.pool.Query(ctx, "SELECT tag FROM public.mark WHERE starts_with(tag, $1)", r.prefix())
	if err != nil {
		return nil, nil, err
	}
	tags, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, tag := range tags {
		marks[tag] = true
	}
	return wins, marks, err
}

// latest returns the function that gives the latest clock any maintainer had been given by a time.
func (r *round) latest() func(time.Duration) time.Duration {
	leaps := slices.Clone(r.leaps)
	slices.SortFunc(leaps, func(a, b leap) int { return cmp.Compare(a.at, b.at) })
	for i := 1; i < len(leaps); i++ {
		leaps[i].latest = max(leaps[i].latest, leaps[i-1].latest)
	}
	return func(at time.Duration) time.Duration {
		i, _ := slices.BinarySearchFunc(leaps, at, func(l leap, at time.Duration) int { return cmp.Compare(l.at, at+1) })
		if i == 0 {
			return at
		}
		return max(at, leaps[i-1].latest)
	}
}

// countWins holds the wins of a key against each other, without a model: before another one, a claim must have been given back,
// or the window must have passed since it was finished; or, not ended, it was taken over.
func countWins(won []event, ends map[string]event, latest func(time.Duration) time.Duration) []string {
	var violations []string
	mayFollow := func(a, b event) bool {
		if end, ok := ends[a.id]; ok && a.phase == absent {
			a.phase, a.finished = end.phase, end.finished
		}
		if b.attempt > 1 {
			return a.phase == absent && b.attempt > a.attempt && a.until > 0
		}
		return a.phase == released || a.phase != absent && a.finished+window <= latest(b.ret)+slack
	}
	byKey := map[string][]event{}
	for _, e := range won {
		byKey[e.key] = append(byKey[e.key], e)
	}
	for key, wins := range byKey {
		slices.SortFunc(wins, func(a, b event) int { return cmp.Compare(a.call, b.call) })
		for i := 1; i < len(wins); i++ {
			a, b := wins[i-1], wins[i]
			if !mayFollow(a, b) && !(a.ret >= b.call && mayFollow(b, a)) {
				violations = append(violations, fmt.Sprintf("business: key %s was won twice, by %s %s %v and %s %s %v", key,
					a.id, a.result, a.claimed, b.id, b.result, b.claimed))
			}
		}
	}
	return violations
}

// foreignResults finds stored results that were read and that no committed winner has stored.
func foreignResults(events []event) []string {
	stored := map[string]bool{}
	for _, e := range events {
		if e.kind == fresh || e.kind == settle {
			stored[e.key+" "+e.result] = true
		}
	}
	var violations []string
	for _, e := range events {
		if e.result != "" && (e.kind == answer || e.kind == found) && !stored[e.key+" "+e.result] {
			violations = append(violations, fmt.Sprintf("key %s was answered %s, which no winner stored", e.key, e.result))
		}
	}
	return violations
}

// checkKeys checks every key's history for linearizability.
func (r *round) checkKeys(events []event, v *verdict, draw bool) {
	byKey := map[string][]porcupine.Operation{}
	for i, e := range events {
		byKey[e.key] = append(byKey[e.key], porcupine.Operation{ClientId: i % 16, Input: e.op, Call: int64(e.call), Return: int64(e.ret)})
	}
	for key, history := range byKey {
		switch result, info := porcupine.CheckOperationsVerbose(model, history, checkTimeout); result {
		case porcupine.Unknown:
			v.inconclusive = append(v.inconclusive, key)
		case porcupine.Illegal:
			v.violations = append(v.violations, fmt.Sprintf("key %s: no order of its %d operations fits the model", key, len(history)))
			if draw && v.picture == "" {
				v.picture = picture(info)
			}
		}
	}
}

func picture(info porcupine.LinearizationInfo) string {
	file, err := os.CreateTemp("", "pgonce-history-*.html")
	if err != nil {
		return err.Error()
	}
	defer func() { _ = file.Close() }()
	if err := porcupine.Visualize(model, info, file); err != nil {
		return err.Error()
	}
	return file.Name()
}

func (v verdict) String() string {
	list := v.violations
	if len(list) > 10 {
		list = append(slices.Clone(list[:10]), fmt.Sprintf("and %d more", len(v.violations)-10))
	}
	return strings.Join(list, "\n")
}
