package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgonce/pgonce"
)

// client calls the SQL functions on a connection of its own.
type client struct {
	run    *round
	random *rand.Rand
	conn   *pgx.Conn
}

// loop runs transactions until the round is over.
func (c *client) loop(ctx context.Context) {
	defer c.close()
	for ctx.Err() == nil && c.ready() {
		c.inTransaction(anyLevel(c.random), !c.chance(6), (*trial).work)
	}
}

// settleLoop ends claims of earlier transactions, by right when their generation is about to expire, and by ids that are over. It
// holds its transactions open, so that carry-over meets them.
func (c *client) settleLoop(ctx context.Context) {
	defer c.close()
	for ctx.Err() == nil && c.ready() {
		c.inTransaction(pgx.ReadCommitted, true, func(t *trial) error {
			work := t.settleLater
			if t.chance(4) {
				work = t.settleStale
			}
			err := work()
			time.Sleep(time.Duration(t.random.Int64N(int64(window / generations))))
			return err
		})
	}
}

// leaseLoop claims few keys for short leases, in short transactions, so that leases run out under whoever has them.
func (c *client) leaseLoop(ctx context.Context) {
	defer c.close()
	for ctx.Err() == nil && c.ready() {
		c.inTransaction(anyLevel(c.random), !c.chance(6), func(t *trial) error {
			if claim, ok := t.run.takeLeased(t.random); ok && t.chance(3) {
				return t.heartbeat(claim)
			} else if ok {
				t.run.giveBack(claim)
			}
			wave := int((t.run.clock.now() - t.run.began) / (window / generations))
			return t.claimLeased(fmt.Sprintf("%sl%d", t.run.prefix(), max(0, wave-t.random.IntN(3))))
		})
	}
}

// ready connects if there is need, and reports whether the client can go on.
func (c *client) ready() bool {
	if c.run.broken() {
		return false
	}
	if c.conn != nil && !c.conn.IsClosed() {
		return true
	}
	var err error
	if c.conn, err = c.run.connect("client"); err != nil {
		c.run.fault(fmt.Errorf("connect: %w", err))
		return false
	}
	return true
}

func (c *client) close() {
	if c.conn != nil {
		_ = c.conn.Close(context.Background())
	}
}

// chance is true once in n.
func (c *client) chance(n int) bool { return c.random.IntN(n) == 0 }

// pause keeps the transaction open, for up to the life of a generation, often for a moment only.
func (c *client) pause() { pause(c.random) }

func pause(random *rand.Rand) {
	longest := window / generations
	if random.IntN(2) == 0 {
		longest /= 10
	}
	time.Sleep(time.Duration(random.Int64N(int64(longest))))
}

// trial is one transaction under way.
type trial struct {
	*client
	ctx    context.Context
	tx     pgx.Tx
	stable bool
	began  time.Duration
	tag    string

	effects    []*event          // what takes effect at the commit
	own        map[string]*event // keys that this transaction has claimed or settled
	savepoints int               // made so far
}

// inTransaction does work in a transaction, then commits or rolls back, and records what became of it.
func (c *client) inTransaction(level pgx.TxIsoLevel, commit bool, work func(*trial) error) {
	t := &trial{client: c, ctx: context.Background(), own: map[string]*event{}, began: c.run.clock.now()}
	t.tag = c.run.tag(c.run.seed)
	t.stable = level == pgx.ReadCommitted
	tx := transaction{tag: t.tag, ending: rolledBack}
	defer func() {
		for _, e := range t.effects {
			tx.effects = append(tx.effects, *e)
		}
		c.run.end(tx)
		c.run.count(func(n *totals) { n.transactions++ })
	}()
	var err error
	if t.tx, err = c.conn.BeginTx(t.ctx, pgx.TxOptions{IsoLevel: level}); err != nil {
		t.failed(err)
		return
	}
	defer func() { _ = t.tx.Rollback(t.ctx) }()
	err = work(t)
	if err == nil && len(t.effects) > 0 {
		err = t.exec("INSERT INTO public.mark (tag) VALUES ($1)", t.tag)
	}
	if err != nil {
		t.failed(err)
		return
	}
	if !commit {
		c.run.count(func(n *totals) { n.rolledBack++ })
		return
	}
	tx.call = c.run.clock.now()
	err = t.tx.Commit(t.ctx)
	tx.ret = c.run.clock.now()
	switch {
	case err == nil:
		tx.ending = committed
	case c.conn.IsClosed():
		tx.ending = unknown
		c.run.count(func(n *totals) { n.unknown++; n.terminated++ })
	default:
		t.failed(err)
	}
}

// failed sorts errors: what concurrency and termination bring is counted, anything else must not be.
func (t *trial) failed(err error) {
	code := pgonce.Code(err)
	t.run.count(func(n *totals) {
		n.rolledBack++
		switch code {
		case "40001":
			n.serialization++
		case "40P01":
			n.deadlocks++
		}
		if t.conn.IsClosed() {
			n.terminated++
		}
	})
	switch code {
	case "40001", "40P01", "55P03", pgonce.CodeLost, pgonce.CodeUnroutable:
	default:
		if !t.conn.IsClosed() {
			t.run.problem("a client's transaction failed (stable %v): %v", t.stable, err)
		}
	}
}

func (t *trial) work() error {
	if t.chance(2) { // an early snapshot
		if err := t.snapshot(); err != nil {
			return err
		}
		t.pause()
	}
	for range 1 + t.random.IntN(3) {
		if err := t.act(); err != nil {
			return err
		}
	}
	if len(t.effects) > 0 && t.chance(3) {
		t.pause()
	}
	return nil
}

// snapshot has a transaction above READ COMMITTED take its snapshot now.
func (t *trial) snapshot() error { return t.exec("SELECT FROM public.mark LIMIT 1") }

func (t *trial) act() error {
	switch n := t.random.IntN(20); {
	case n < 5:
		return t.settleLater()
	case n < 6:
		return t.settleStale()
	case n < 8:
		return t.lookup()
	case n < 10:
		return t.claimMany()
	case n < 12:
		return t.savepoint(t.claim)
	case n < 15:
		return t.claimLeased(t.run.key(t.random))
	default:
		return t.claim()
	}
}

func (t *trial) exec(sql string, args ...any) error {
	_, err := t.tx.Exec(t.ctx, sql, args...)
	return err
}

// savepoint does work in a savepoint, which is then released or rolled back: what was won in it is free again.
func (t *trial) savepoint(work func() error) error {
	t.savepoints++
	name := "s" + strconv.Itoa(t.savepoints)
	if err := t.exec("SAVEPOINT " + name); err != nil {
		return err
	}
	before := len(t.effects)
	if err := work(); err != nil {
		return err
	}
	if t.chance(2) {
		return t.exec("RELEASE " + name)
	}
	if err := t.exec("ROLLBACK TO " + name); err != nil {
		return err
	}
	for _, e := range t.effects[before:] {
		t.run.add(e.undone())
		delete(t.own, e.key)
	}
	t.effects = t.effects[:before]
	return nil
}

// undone is what remains to be said of an effect that was rolled back.
func (e event) undone() event {
	e.kind = map[kind]kind{fresh: freshUndone, settle: settleUndone, renew: settleUndone}[e.kind]
	return e
}

// read records what the transaction was told of a key, which its own work has not touched.
func (t *trial) read(o op, call time.Duration) {
	if !t.stable {
		call = t.began // as old as the snapshot
	}
	o.stable = t.stable
	t.run.add(event{op: o, call: call, ret: t.run.clock.now()})
	if o.outcome == "replay" {
		t.run.count(func(n *totals) { n.replays++ })
	}
}

// wait is how long a claim waits for another transaction: not at all, a little, or until it ends.
func (t *trial) wait() *time.Duration {
	switch t.random.IntN(3) {
	case 0:
		return new(time.Duration)
	case 1:
		wait := time.Duration(1+t.random.IntN(50)) * time.Millisecond
		return &wait
	}
	return nil
}

// anyLevel is a level of isolation, READ COMMITTED most often.
func anyLevel(random *rand.Rand) pgx.TxIsoLevel {
	return []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}[random.IntN(4)]
}

// anyFingerprint is nearly always the same for all; once in a while another, or none.
func anyFingerprint(random *rand.Rand) string {
	return []string{"x", "x", "x", "x", "x", "x", "y", ""}[random.IntN(8)]
}

func digest(fingerprint string) []byte {
	if fingerprint == "" {
		return nil
	}
	return []byte(fingerprint)
}

func (t *trial) claim() error {
	return t.claimKey(t.run.key(t.random), t.chance(3), t.chance(4))
}

// claimKey claims by one of the forms of once.claim.
func (t *trial) claimKey(key string, deferred, complete bool) error {
	o := op{key: key, fingerprint: anyFingerprint(t.random), stable: t.stable, claimed: t.run.clock.now()}
	err := t.tx.QueryRow(t.ctx, `SELECT outcome::text, coalesce(claim_id::text, ''), coalesce(convert_from(result, 'UTF8'), '')
		FROM once.claim('s', $1, $2, p_wait => $3, p_defer => $4, p_done => $5)`,
		key, digest(o.fingerprint), t.wait(), deferred, complete).Scan(&o.outcome, &o.id, &o.result)
	if mine := t.own[key]; mine != nil && mine.deferred && pgonce.Code(err) == pgonce.CodeNested {
		return errAbandoned
	}
	if err != nil {
		return err
	}
	if complete {
		o.phase = done
	}
	return t.claimed(o, deferred && t.stable && !complete)
}

// lease is a length: mostly one that runs out while the key is in use, now and then one that outlives the generation.
func (t *trial) lease() time.Duration {
	if t.chance(4) {
		return 2 * window
	}
	return time.Duration(10+t.random.IntN(150)) * time.Millisecond
}

func (t *trial) claimLeased(key string) error {
	lease := t.lease()
	o := op{key: key, fingerprint: anyFingerprint(t.random), stable: t.stable, claimed: t.run.clock.now()}
	err := t.tx.QueryRow(t.ctx, `SELECT outcome::text, attempt, coalesce(claim_id::text, ''), coalesce(convert_from(result, 'UTF8'), '')
		FROM once.claim_leased('s', $1, $2, p_wait => $3, p_lease => $4)`,
		key, digest(o.fingerprint), t.wait(), lease).Scan(&o.outcome, &o.attempt, &o.id, &o.result)
	if mine := t.own[key]; mine != nil && mine.deferred && pgonce.Code(err) == pgonce.CodeNested {
		return errAbandoned
	}
	if err != nil {
		return err
	}
	if o.outcome == "fresh" {
		o.until = o.claimed + lease
	}
	return t.claimed(o, false)
}

// heartbeat renews the lease of an earlier transaction's claim.
func (t *trial) heartbeat(claim unsettled) error {
	call, lease := t.run.clock.now(), t.lease()
	err := t.exec("SELECT once.heartbeat('s', $1, $2::text::uuid, $3, p_lease => $4)", claim.key, claim.id, claim.attempt, lease)
	o := op{key: claim.key, kind: renew, id: claim.id, claimed: claim.claimed, attempt: claim.attempt, until: call + lease}
	switch {
	case err == nil:
		e := &event{op: o, call: call, ret: t.run.clock.now()}
		t.effects = append(t.effects, e)
		t.own[e.key] = e
	case pgonce.Code(err) == pgonce.CodeLost:
		o.kind = renewLost
		t.run.add(event{op: o, call: call, ret: t.run.clock.now()})
	default:
		t.run.giveBack(claim)
	}
	return err
}

// errAbandoned ends a transaction that misuse, tried on purpose, has aborted.
var errAbandoned = &pgconn.PgError{Code: pgonce.CodeLost, Message: "abandoned"}

// claimed deals with the answer of a claim. One that is fresh does business, and is often settled in the same transaction.
func (t *trial) claimed(o op, deferred bool) error {
	now := t.run.clock.now()
	if mine := t.own[o.key]; mine != nil {
		expired := mine.until > 0 && mine.until < now
		if o.outcome == "fresh" && mine.phase != released && !expired {
			t.run.problem("key %s was fresh twice in one transaction", o.key)
		}
		if o.outcome == "replay" && o.id != mine.id {
			t.run.problem("key %s was replayed from %s inside the transaction of %s", o.key, o.id, mine.id)
		}
		if o.outcome != "fresh" {
			return nil
		}
		return errAbandoned // given back, or its lease run out, and taken again: two operations in one, which the model does not know
	}
	if o.outcome != "fresh" {
		o.kind, o.phase = answer, absent
		t.read(o, o.claimed)
		return nil
	}
	o.kind, o.outcome, o.finished, o.decided = fresh, "", o.claimed, now
	o.attempt = max(o.attempt, 1)
	if o.attempt > 1 {
		t.run.count(func(n *totals) { n.takeovers++ })
	}
	e := &event{op: o, call: o.claimed, ret: now}
	e.deferred = deferred
	t.effects = append(t.effects, e)
	t.own[o.key] = e
	t.run.take(o.key)
	if err := t.exec("INSERT INTO public.win (key, claim, tag) VALUES ($1, $2, $3)", o.key, o.id, t.tag); err != nil {
		return err
	}
	if t.chance(3) {
		t.pause()
	}
	if o.phase == done || !deferred && t.chance(3) || o.until > 0 && t.chance(2) {
		return nil
	}
	return t.end(e, o.fingerprint)
}

// end settles a claim of this transaction's, or of an earlier one.
func (t *trial) end(e *event, fingerprint string) error {
	as := []phase{done, done, done, failed, released}[t.random.IntN(5)]
	e.result, e.finished = "", t.run.clock.now()
	var err error
	switch as {
	case released:
		err = t.exec("SELECT once.release('s', $1, $2::text::uuid, $3)", e.key, e.id, e.attempt)
	case failed:
		e.result = "no " + t.tag
		err = t.exec("SELECT once.fail('s', $1, $2::text::uuid, $3, $4, p_fingerprint => $5)", e.key, e.id, e.attempt, []byte(e.result), digest(fingerprint))
	default:
		e.result = strconv.Quote(t.tag)
		err = t.exec("SELECT once.complete('s', $1, $2::text::uuid, $3, $4, 'application/json', p_fingerprint => $5)",
			e.key, e.id, e.attempt, []byte(e.result), digest(fingerprint))
	}
	if err == nil {
		e.phase, e.ret = as, t.run.clock.now()
	}
	return err
}

func (t *trial) settleLater() error {
	claim, ok := t.run.takeOpen(t.random)
	if !ok {
		return t.claim()
	}
	if t.own[claim.key] != nil {
		t.run.giveBack(claim)
		return nil
	}
	if claim.leased && t.chance(2) {
		return t.heartbeat(claim)
	}
	return t.settle(claim)
}

func (t *trial) settleStale() error {
	claim, ok := t.run.takeStale(t.random)
	if !ok || t.own[claim.key] != nil {
		return nil
	}
	if claim.leased && t.chance(4) {
		return t.heartbeat(claim)
	}
	return t.settle(claim)
}

func (t *trial) settle(claim unsettled) error {
	call := t.run.clock.now()
	e := &event{op: op{key: claim.key, kind: settle, id: claim.id, claimed: claim.claimed, attempt: claim.attempt}, call: call}
	err := t.end(e, "")
	if err == nil {
		t.effects = append(t.effects, e)
		t.own[e.key] = e
		if t.chance(2) {
			t.pause()
		}
		return nil
	}
	if pgonce.Code(err) == pgonce.CodeLost {
		t.run.add(event{op: op{key: claim.key, kind: lost, id: claim.id, attempt: claim.attempt}, call: call, ret: t.run.clock.now()})
	} else {
		t.run.giveBack(claim)
	}
	return err
}

// lookup reads a key. Now and then it finds the claim of a client that never learned of it, as an operator would.
func (t *trial) lookup() error {
	key := t.run.key(t.random)
	if t.own[key] != nil {
		return nil
	}
	call := t.run.clock.now()
	o := op{key: key, kind: found}
	err := t.tx.QueryRow(t.ctx, `SELECT state::text, claim_id::text, attempt, coalesce(convert_from(result, 'UTF8'), '') FROM once.lookup('s', $1)`,
		key).Scan(&o.phase, &o.id, &o.attempt, &o.result)
	if errors.Is(err, pgx.ErrNoRows) {
		o.kind, err = notFound, nil
	}
	if err != nil {
		return err
	}
	t.read(o, call)
	if (o.phase == parked || o.phase == pending) && t.chance(4) {
		return t.settle(unsettled{key: key, id: o.id, attempt: o.attempt})
	}
	return nil
}

func (t *trial) claimMany() error {
	keys := make([]string, 2+t.random.IntN(3))
	prints := make([][]byte, len(keys))
	fingerprints := make([]string, len(keys))
	for i := range keys {
		keys[i] = t.run.key(t.random)
		fingerprints[i] = anyFingerprint(t.random)
		prints[i] = digest(fingerprints[i])
		if t.own[keys[i]] != nil {
			return nil
		}
	}
	call := t.run.clock.now()
	rows, err := t.tx.Query(t.ctx, `SELECT key, outcome::text, coalesce(claim_id::text, ''), coalesce(convert_from(result, 'UTF8'), '')
		FROM once.claim_many('s', $1, $2, p_wait => $3) ORDER BY position`, keys, prints, t.wait())
	if err != nil {
		return err
	}
	type row struct{ Key, Outcome, ID, Result string }
	answers, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if err != nil {
		return err
	}
	if len(answers) != len(keys) {
		t.run.problem("claim_many answered %d of %d keys", len(answers), len(keys))
	}
	freshKeys := map[string]bool{}
	for i, a := range answers {
		if a.Key != keys[i] {
			t.run.problem("claim_many answered for %s in the place of %s", a.Key, keys[i])
		}
		if a.Outcome == "fresh" && freshKeys[a.Key] {
			t.run.problem("claim_many gave key %s twice", a.Key)
		}
		freshKeys[a.Key] = freshKeys[a.Key] || a.Outcome == "fresh"
	}
	for i, a := range answers {
		if freshKeys[a.Key] && a.Outcome != "fresh" {
			continue // a repeat met the batch's own claim
		}
		err := t.claimed(op{key: a.Key, outcome: a.Outcome, id: a.ID, result: a.Result, fingerprint: fingerprints[i],
			stable: t.stable, claimed: call}, false)
		if err != nil {
			return fmt.Errorf("%s: %w", a.Key, err)
		}
	}
	return nil
}
