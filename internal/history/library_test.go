package history

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/txn"
)

// library is a client that works through txn: it calls the functions of the epoch that it remembers.
type library struct {
	run    *round
	random *rand.Rand
	pool   *pgxpool.Pool // may lose connections
	steady *pgxpool.Pool // may not
}

func (l *library) loop(ctx context.Context) {
	for ctx.Err() == nil && !l.run.broken() {
		l.once()
	}
}

var errUndo = errors.New("the function changes its mind")

func (l *library) once() {
	r := l.random
	req := txn.Request{Scope: "s", Key: l.run.key(r), Strict: r.IntN(3) == 0}
	if !req.Strict && r.IntN(2) == 0 {
		req.Wait = time.Duration(1+r.IntN(50)) * time.Millisecond
	}
	level := anyLevel(r)
	req.TxOptions.IsoLevel = level
	fingerprint := anyFingerprint(r)
	req.Fingerprint = digest(fingerprint)
	o := op{key: req.Key, fingerprint: fingerprint, stable: level == pgx.ReadCommitted, claimed: l.run.clock.now()}

	// A refusal is stored in a second transaction, which has no business row to tell afterwards whether it committed.
	refuse, undo, hold := r.IntN(8) == 0, r.IntN(8) == 0, r.IntN(4) == 0
	pool := l.pool
	if refuse {
		pool = l.steady
	}
	var tags []string
	var began []time.Duration
	var refusal string
	work := func(ctx context.Context, tx pgx.Tx) (string, error) {
		tag := l.run.tag(l.run.seed)
		tags, began = append(tags, tag), append(began, l.run.clock.now())
		if _, err := tx.Exec(ctx, "INSERT INTO public.win (key, claim, tag) VALUES ($1, '', $2)", req.Key, tag); err != nil {
			return "", err
		}
		if _, err := tx.Exec(ctx, "INSERT INTO public.mark (tag) VALUES ($1)", tag); err != nil {
			return "", err
		}
		l.run.take(req.Key)
		if hold {
			pause(r)
		}
		switch {
		case refuse:
			refusal = "no " + tag
			return "", txn.Final(errors.New(refusal))
		case undo:
			return "", errUndo
		}
		return tag, nil
	}
	var result txn.Result[string]
	var err error
	consume := !refuse && r.IntN(2) == 0
	if consume {
		result.Outcome, err = txn.Consume(context.Background(), pool, req, func(ctx context.Context, tx pgx.Tx) error {
			_, err := work(ctx, tx)
			return err
		})
	} else {
		result, err = txn.Run(context.Background(), pool, req, work)
	}
	ret := l.run.clock.now()
	l.run.count(func(n *totals) { n.transactions += max(1, len(tags)) })

	// What every call of the function left behind, if anything: only the last may have been the one.
	effect := func(i int) event {
		e := event{op: o, call: began[i], ret: ret}
		e.kind, e.phase, e.finished = fresh, done, o.claimed
		if !consume {
			e.result, e.finished = strconv.Quote(tags[i]), began[i]
		}
		return e
	}
	for i := range tags {
		tx := transaction{tag: tags[i], ending: rolledBack, call: began[i], ret: ret, effects: []event{effect(i)}}
		switch {
		case err == nil && result.Outcome == pgonce.Fresh && i == len(tags)-1:
			tx.ending = committed
		case !refuse && !undo:
			tx.ending = unknown // a COMMIT that was not answered, or one that failed
			tx.effects[0].maybe = true
		}
		l.run.end(tx)
	}
	var refused *pgonce.FailedError
	switch {
	case err == nil && result.Outcome == pgonce.Fresh:
		return
	case err == nil:
		o.outcome = "replay"
		if consume {
			o.unread = true
		} else if result.Value != "" {
			o.result = strconv.Quote(result.Value)
		}
		l.run.count(func(n *totals) { n.replays++ })
	case errors.As(err, &refused) && !refused.Replayed:
		o.kind, o.phase, o.result, o.finished = fresh, failed, refusal, began[len(began)-1]
		l.run.add(event{op: o, call: began[len(began)-1], ret: ret})
		return
	case errors.As(err, &refused):
		o.outcome, o.result = "failed", refused.Message
	case errors.Is(err, pgonce.ErrInProgress):
		o.outcome = "in_progress"
	case errors.Is(err, pgonce.ErrMismatch):
		o.outcome = "mismatch"
	case errors.Is(err, pgonce.ErrParked):
		o.outcome = "parked"
	case errors.Is(err, errUndo), txn.Retryable(err), pgonce.Code(err) == "55P03": // lockTimeout
		return
	default:
		if pool == l.pool && lostConnection(err) {
			l.run.count(func(n *totals) { n.terminated++ })
			return
		}
		l.run.problem("txn (consume %v, %s): %v", consume, level, err)
		return
	}
	o.kind = answer
	l.run.add(event{op: o, call: o.claimed, ret: ret})
}
