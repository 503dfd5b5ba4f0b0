package txn

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/db"
)

// RunLeased does work once for the request's key when the work leaves the database: a call to a provider, a mail. It commits
// a claim with a lease first, calls work, which holds no transaction, then calls record with the value in a transaction that
// also completes the claim and stores the value. A duplicate is given the stored value. record may be nil.
//
// While work goes on the lease is renewed. A process that dies loses it, and what happens then is the scope's policy: takeover
// has the next caller run work again, with the next attempt, up to max_attempts; park lets a human decide. So work must be
// fit to be repeated: give lease.IdempotencyKey to whom you call, and put what must not be repeated into steps (see Step).
// A scope whose calls must never be repeated blindly says park.
//
// When the lease is lost all the same (the process was stopped for longer, the database was away), the context of work ends
// with the cause pgonce.ErrLost, record is not called and nothing is stored: a later attempt has the word.
//
// What work returns decides. A value completes. An error by Final is stored as a refusal, an error by NoEffect gives the key back
// as if it had never been claimed. Any other error, and a panic, says that nobody knows what happened: the attempt is
// abandoned, which takes the scope's policy, and the error is returned. So it is when ctx ends.
//
// record may be called several times, each time in a transaction of its own with the request's TxOptions, as the function of Run
// may; if it fails the attempt is abandoned. If another caller holds the key, RunLeased asks again until the wait is over (Strict, Wait, the context),
// then returns pgonce.ErrInProgress. The other errors are those of Run.
//
// RunLeased may be called by any number of goroutines. It uses one connection of the pool at a time, none while work goes on and
// the lease is not just being renewed.
func RunLeased[T any](
	ctx context.Context, pool *pgxpool.Pool, req Request,
	work func(ctx context.Context, lease *Lease) (T, error),
	record func(ctx context.Context, tx pgx.Tx, value T) error,
) (Result[T], error) {
	req = req.withDefaults()
	answer, err := takeLease(ctx, pool, req)
	if err != nil {
		return Result[T]{}, err
	}
	result := Result[T]{}
	if answer.Outcome != pgonce.Fresh {
		return finish(result, req, answer, decision(req, answer))
	}
	lease := &Lease{pool: pool, req: req, claimID: answer.ClaimID, attempt: answer.Attempt, length: value(answer.RetryAfter)}
	lease.keep(ctx)
	defer lease.close()

	result.Value, err = work(lease.ctx, lease)
	if err == nil {
		err = lease.complete(ctx, result.Value, func(ctx context.Context, tx pgx.Tx) error {
			if record == nil {
				return nil
			}
			return record(ctx, tx, result.Value)
		})
	} else {
		err = lease.end(ctx, err)
	}
	return finish(result, req, answer, err)
}

// Lease is a claim of RunLeased while its work goes on. Its methods may be called concurrently.
type Lease struct {
	pool    *pgxpool.Pool
	req     Request
	claimID pgtype.UUID
	attempt int32
	length  time.Duration

	ctx    context.Context // of the work; ends with the lease
	cancel context.CancelCauseFunc
	kept   sync.WaitGroup
	ended  bool // as far as this process can end it

	mu    sync.Mutex
	steps map[string]json.RawMessage // by earlier attempts and this one; nil: not yet asked for
}

// Attempt is the fencing number: 1, and one more at every takeover. Hand it on to what can refuse a lower one.
func (l *Lease) Attempt() int32 { return l.attempt }

// IdempotencyKey is a key for the outside, 64 hexadecimal digits, the same in every attempt at this operation and in no other.
func (l *Lease) IdempotencyKey() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", l.req.Scope, l.req.Subject, l.req.Key))
	return hex.EncodeToString(sum[:])
}

type noEffectError struct{ err error }

func (e *noEffectError) Error() string { return e.err.Error() }
func (e *noEffectError) Unwrap() error { return e.err }

// NoEffect marks an error of work that certainly changed nothing outside: the call was never made, or was refused before anything
// happened. RunLeased gives the key back, so that the next caller begins anew. NoEffect(nil) is nil.
func NoEffect(err error) error {
	if err == nil {
		return nil
	}
	return &noEffectError{err}
}

// Step does fn once for all attempts at a leased operation: its result is stored under name, by JSON, at most 64 KiB of it, and a later attempt is given
// that instead. Between fn's end and the storing a process can still die: then fn runs again, so hand lease.IdempotencyKey on. Names
// must be unique inside the operation and the same in every attempt. It returns pgonce.ErrLost if the lease was lost while fn ran.
func Step[T any](ctx context.Context, lease *Lease, name string, fn func(ctx context.Context) (T, error)) (T, error) {
	var result T
	stored, ok, err := lease.step(ctx, name)
	if err != nil {
		return result, err
	}
	if ok {
		if err := json.Unmarshal(stored, &result); err != nil {
			return *new(T), fmt.Errorf("%s: decode result of step %q: %w", lease.req.key(), name, err)
		}
		return result, nil
	}
	if result, err = fn(ctx); err != nil {
		return *new(T), err
	}
	data, err := json.Marshal(result)
	if err != nil {
		return *new(T), fmt.Errorf("%s: encode result of step %q: %w", lease.req.key(), name, err)
	}
	if err := lease.checkpoint(ctx, name, data); err != nil {
		return *new(T), err
	}
	return result, nil
}

// takeLease claims, and asks again while another caller holds the key and the wait lasts.
func takeLease(ctx context.Context, pool *pgxpool.Pool, req Request) (db.ClaimResult, error) {
	if err := req.validate(); err != nil {
		return db.ClaimResult{}, err
	}
	if req.Token != "" {
		return db.ClaimResult{}, &pgonce.InvalidError{
			Code:    pgonce.CodeInvalidArgument,
			Message: "RunLeased takes a Key, not a Token: a token is redeemed in one transaction",
		}
	}
	params := db.ClaimLeasedParams{Scope: req.Scope, Key: req.Key, Fingerprint: req.Fingerprint, Subject: req.Subject}
	if req.Lease > 0 {
		params.Lease = &req.Lease
	}
	start := time.Now()
	pause := newBackOff()
	for retry := 0; ; {
		left := req.wait(ctx)
		if left != nil && req.Wait > 0 {
			*left = min(*left, max(req.Wait-time.Since(start), 0))
		}
		params.Wait = left
		answer, err := db.New(pool).ClaimLeased(ctx, params)
		if err != nil {
			err = fmt.Errorf("claim %s: %w", req.key(), err)
			if !Retryable(err) || retry >= req.MaxRetries {
				return answer, err
			}
			retry++
		} else if answer.Outcome != pgonce.InProgress || left != nil && *left <= 0 {
			return answer, nil
		}
		next := pause.NextBackOff()
		if left != nil {
			next = min(next, *left)
		}
		select {
		case <-ctx.Done():
			return answer, fmt.Errorf("%w while waiting for %s", context.Cause(ctx), req.key())
		case <-time.After(next):
		}
	}
}

// keep renews the lease in the background, three times in its length, until stop.
func (l *Lease) keep(ctx context.Context) {
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	l.kept.Go(func() {
		until := time.Now().Add(l.length) // not later than the database has it, but for the time that the answer took
		for {
			select {
			case <-l.ctx.Done():
				return
			case <-time.After(l.length / 3):
			}
			began := time.Now()
			err := l.renew(l.ctx, until)
			switch {
			case err == nil:
				until = began.Add(l.length)
			case errors.Is(err, pgonce.ErrLost), !time.Now().Before(until):
				l.cancel(fmt.Errorf("%s: %w: %w", l.req.key(), pgonce.ErrLost, err))
				return
			}
		}
	})
}

// renew sends one heartbeat.
func (l *Lease) renew(ctx context.Context, until time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	params := db.HeartbeatParams{Scope: l.req.Scope, Key: l.req.Key, ClaimID: l.claimID, Attempt: l.attempt, Subject: l.req.Subject, Lease: &l.length}
	if err := db.New(l.pool).Heartbeat(ctx, params); err != nil {
		return fmt.Errorf("renew lease of %s: %w", l.req.key(), lost(err))
	}
	return nil
}

// stop ends the heartbeats.
func (l *Lease) stop() {
	l.cancel(nil)
	l.kept.Wait()
}

// lost is the error of a lease that was lost, nil if it was not.
func (l *Lease) lost() error {
	if err := context.Cause(l.ctx); errors.Is(err, pgonce.ErrLost) {
		return err
	}
	return nil
}

// complete writes what came of the work, and ends the claim, in one transaction.
func (l *Lease) complete(ctx context.Context, result any, record func(ctx context.Context, tx pgx.Tx) error) error {
	done, err := encode(l.req, result)
	if err != nil {
		return l.end(ctx, err)
	}
	done.state = db.OnceClaimStateDone
	if err := l.settle(ctx, done, record); err != nil {
		return l.end(ctx, err)
	}
	return nil
}

// end ends the claim by an error of the work.
func (l *Lease) end(ctx context.Context, cause error) error {
	if err := l.lost(); err != nil {
		l.ended = true
		return errors.Join(err, cause)
	}
	if l.ended { // or nobody knows
		return cause
	}
	var refusal *finalError
	if errors.As(cause, &refusal) {
		contentType := refusalType
		err := l.settle(ctx, stored{
			state: db.OnceClaimStateFailed, result: []byte(refusal.err.Error()), contentType: &contentType, meta: l.req.Meta,
		}, nil)
		if err == nil {
			return pgonce.NewFailedError(l.req.key(), refusal.err)
		}
		if cause = errors.Join(err, cause); l.ended {
			return cause
		}
	}
	l.stop()
	l.ended = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.req.CommitTimeout)
	defer cancel()
	var err error
	if errors.As(cause, new(*noEffectError)) {
		err = db.New(l.pool).Release(ctx, db.ReleaseParams{Scope: l.req.Scope, Key: l.req.Key, ClaimID: l.claimID, Attempt: l.attempt, Subject: l.req.Subject})
	} else {
		err = db.New(l.pool).Abandon(ctx, db.AbandonParams{Scope: l.req.Scope, Key: l.req.Key, ClaimID: l.claimID, Attempt: l.attempt, Subject: l.req.Subject, Reason: cause.Error()})
	}
	if err != nil { // then the lease runs out by itself
		return errors.Join(cause, fmt.Errorf("give up %s: %w", l.req.key(), lost(err)))
	}
	return cause
}

// close ends the heartbeats, and a claim whose work did not return: it panicked, or ended its goroutine.
func (l *Lease) close() {
	if !l.ended {
		_ = l.end(context.Background(), errors.New("the work did not return"))
	}
	l.stop()
}

// settle ends the claim in a transaction of its own; again where that is called for. The work is done by now, so the end of the
// caller's context must not lose it.
func (l *Lease) settle(ctx context.Context, done stored, record func(ctx context.Context, tx pgx.Tx) error) error {
	l.stop()
	if err := l.lost(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.req.CommitTimeout)
	defer cancel()
	if err := l.renew(ctx, time.Now().Add(l.req.CommitTimeout)); errors.Is(err, pgonce.ErrLost) {
		l.ended = true
		return err
	}
	pause := newBackOff()
	unanswered := false
	for retry := 0; ; retry++ {
		err := l.trySettle(ctx, done, record)
		if unanswered && errors.Is(err, pgonce.ErrLost) && l.settledBefore(ctx, done) {
			err = nil
		}
		if _, ok := err.(*unansweredError); ok {
			unanswered = true
		}
		switch {
		case err == nil:
			l.ended = true
			return nil
		case errors.Is(err, pgonce.ErrLost):
			l.ended = true
			return err
		case !Retryable(err) && !unanswered, retry >= l.req.MaxRetries:
			l.ended = unanswered
			return given(err, unanswered)
		}
		select {
		case <-ctx.Done():
			l.ended = unanswered
			return given(err, unanswered)
		case <-time.After(pause.NextBackOff()):
		}
	}
}

func (l *Lease) trySettle(ctx context.Context, done stored, record func(ctx context.Context, tx pgx.Tx) error) error {
	conn, err := l.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("acquire connection: %w", err)
	}
	defer conn.Release()
	tx, err := conn.BeginTx(ctx, l.req.TxOptions)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if record != nil {
		if err := record(ctx, &transaction{Tx: tx}); err != nil {
			return err
		}
	}
	if err := settleIn(ctx, tx, l.req, db.ClaimResult{ClaimID: l.claimID, Attempt: l.attempt}, done); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		if mayHaveCommitted(conn.Conn(), err) {
			return &unansweredError{err}
		}
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// settledBefore reports whether the claim has ended as it was to end: by a COMMIT of ours that was not answered.
func (l *Lease) settledBefore(ctx context.Context, done stored) bool {
	row, err := db.New(l.pool).Lookup(ctx, db.LookupParams{Scope: l.req.Scope, Key: l.req.Key, Subject: l.req.Subject})
	return err == nil && row.ClaimID == l.claimID && row.State == done.state
}

// step returns the stored result of a step, if there is one.
func (l *Lease) step(ctx context.Context, name string) (json.RawMessage, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.steps == nil {
		l.steps = map[string]json.RawMessage{}
		if l.attempt > 1 {
			row, err := db.New(l.pool).Lookup(ctx, db.LookupParams{Scope: l.req.Scope, Key: l.req.Key, Subject: l.req.Subject})
			if err == nil && row.Checkpoints != nil {
				err = json.Unmarshal(row.Checkpoints, &l.steps)
			}
			if err != nil {
				l.steps = nil
				return nil, false, fmt.Errorf("look up the steps of %s: %w", l.req.key(), err)
			}
		}
	}
	stored, ok := l.steps[name]
	return stored, ok, nil
}

// checkpoint stores the result of a step. The step is done by now, so the end of the caller's context must not lose it.
func (l *Lease) checkpoint(ctx context.Context, name string, data json.RawMessage) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.req.CommitTimeout)
	defer cancel()
	err := db.New(l.pool).Checkpoint(ctx, db.CheckpointParams{
		Scope: l.req.Scope, Key: l.req.Key, ClaimID: l.claimID, Attempt: l.attempt, Step: name, Value: data, Subject: l.req.Subject, Lease: &l.length,
	})
	if err != nil {
		return fmt.Errorf("store the result of step %q of %s: %w", name, l.req.key(), lost(err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steps[name] = data
	return nil
}
