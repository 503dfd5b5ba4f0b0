package history

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/internal/pgproxy"
	"github.com/pgonce/pgonce/oncetest"
	"github.com/pgonce/pgonce/txn"
)

// harness is a database with the scope s under test, and a business table that nothing keeps from having a row twice.
type harness struct {
	*oncetest.DB
	t     testing.TB
	clock *clock
	proxy *pgproxy.Proxy   // in front of the clients whose connections may be lost
	pools [2]*pgxpool.Pool // for txn: one whose connections may be terminated, one whose may not
	n     totals
}

// newHarness makes the database. edits are made to the private functions before there is a scope.
func newHarness(t testing.TB, edits ...edit) *harness {
	t.Helper()
	h := &harness{DB: oncetest.Postgres(t), t: t}
	h.admin("ALTER DATABASE %s SET deadlock_timeout = '50ms'") // for superusers only
	for _, e := range edits {
		e.apply(t, h.Pool)
	}
	h.exec(`CREATE TABLE public.win (key text NOT NULL, claim text NOT NULL, tag text NOT NULL);
		CREATE TABLE public.mark (tag text NOT NULL)`)
	h.exec(fmt.Sprintf("SELECT once.create_scope('s', interval '%d ms', interval '1 ms', %d, p_archive => 'discard', p_max_attempts => 1000000)",
		window.Milliseconds(), generations))
	h.clock = newClock(t, h.Pool)
	target, err := pgx.ParseConfig(h.URL)
	require.NoError(t, err)
	network, address := pgconn.NetworkAddress(target.Host, target.Port)
	require.Contains(t, []string{"tcp", "unix"}, network)
	h.proxy, err = pgproxy.Start(address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = h.proxy.Close() })
	for i, name := range []string{"client", "steady"} {
		config, err := pgxpool.ParseConfig(h.URL)
		require.NoError(t, err)
		if name == "client" {
			through(h.proxy, config.ConnConfig)
		}
		config.ConnConfig.RuntimeParams["application_name"] = name
		config.ConnConfig.RuntimeParams["lock_timeout"] = lockTimeout
		config.MaxConns = 8
		h.pools[i], err = pgxpool.NewWithConfig(context.Background(), config)
		require.NoError(t, err)
		t.Cleanup(h.pools[i].Close)
	}
	return h
}

// through has connections go through the proxy.
func through(proxy *pgproxy.Proxy, config *pgx.ConnConfig) {
	host, port, _ := strings.Cut(proxy.Addr(), ":")
	number, _ := strconv.ParseUint(port, 10, 16)
	config.Host, config.Port, config.TLSConfig, config.Fallbacks = host, uint16(number), nil, nil
}

func (h *harness) exec(sql string) {
	h.t.Helper()
	_, err := h.Pool.Exec(context.Background(), sql)
	require.NoError(h.t, err, sql)
}

// admin runs a statement about this database as the superuser. On a server that gives us none, deadlocks take a second each.
func (h *harness) admin(format string) {
	h.t.Helper()
	conn, err := pgx.Connect(context.Background(), h.AdminURL)
	require.NoError(h.t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	var super bool
	require.NoError(h.t, conn.QueryRow(context.Background(), "SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user").Scan(&super))
	if !super {
		return
	}
	_, err = conn.Exec(context.Background(), fmt.Sprintf(format, pgx.Identifier{conn.Config().Database}.Sanitize()))
	require.NoError(h.t, err)
}

// lockTimeout bounds every wait, so that a few hot keys do not hold up everybody.
const lockTimeout = "500ms"

// round is one history: its keys are used in no other.
type round struct {
	*recorder
	seed  uint64
	url   string
	proxy *pgproxy.Proxy
	pool  *pgxpool.Pool
	began time.Duration
}

func (r *round) prefix() string { return fmt.Sprintf("%x-", r.seed) }

// key is one of a few that are used all the time, so before they are forgotten and afterwards; or one that was just taken; or
// one of those that are new and used by all at the same time.
func (r *round) key(random *rand.Rand) string {
	switch random.IntN(3) {
	case 0:
		return fmt.Sprintf("%s%d", r.prefix(), random.IntN(8))
	case 1:
		if key := r.lastTaken(random); key != "" {
			return key
		}
	}
	wave := int((r.clock.now() - r.began) / (20 * time.Millisecond))
	return fmt.Sprintf("%sw%d", r.prefix(), max(0, wave-random.IntN(8)))
}

func (r *round) connect(name string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(r.url)
	if err != nil {
		return nil, err
	}
	if name == "client" {
		through(r.proxy, config)
	}
	config.RuntimeParams["application_name"] = name
	config.RuntimeParams["lock_timeout"] = lockTimeout
	return pgx.ConnectConfig(context.Background(), config)
}

// play lets everybody loose for a time, and judges. draw: a violation is drawn.
func (h *harness) play(seed uint64, duration time.Duration, draw bool) verdict {
	h.t.Helper()
	r := &round{recorder: &recorder{clock: h.clock}, seed: seed, url: h.URL, proxy: h.proxy, pool: h.Pool, began: h.clock.now()}
	r.leaps = []leap{{0, r.began + window/4}} // those of the round before may have been late in the same way
	sequence := uint64(0)
	random := func() *rand.Rand { sequence++; return rand.New(rand.NewPCG(seed, sequence)) }
	// Everybody connects first: on a busy machine that takes longer than a round, and a round without its maintainers is worth nothing.
	var workers []func(context.Context)
	sql := func() *client {
		c := &client{run: r, random: random()}
		c.ready()
		return c
	}
	for range 8 {
		workers = append(workers, sql().loop)
	}
	for range 4 {
		workers = append(workers, (&duel{first: sql(), second: sql()}).loop)
	}
	for range 2 {
		workers = append(workers, sql().settleLoop, sql().leaseLoop)
	}
	for range 4 {
		workers = append(workers, (&library{run: r, random: random(), pool: h.pools[0], steady: h.pools[1]}).loop)
	}
	for _, steps := range []bool{false, true} {
		workers = append(workers, (&maintainer{run: r, random: random(), conn: h.connection(r), steps: steps}).loop)
	}
	for _, disturb := range []func(context.Context, *rand.Rand, *pgx.Conn){r.terminate, r.stall} {
		random, conn := random(), h.connection(r)
		workers = append(workers, func(ctx context.Context) {
			defer func() { _ = conn.Close(context.Background()) }()
			disturb(ctx, random, conn)
		})
	}

	r.began = h.clock.now()
	ctx, cancel := context.WithTimeout(context.Background(), duration)
	defer cancel()
	var group sync.WaitGroup
	for _, work := range workers {
		group.Go(func() { work(ctx) })
	}
	group.Wait()
	require.Empty(h.t, r.trouble, "seed %d", seed)
	require.NoError(h.t, r.sweep())

	judging, cancelJudging := context.WithTimeout(context.Background(), time.Minute)
	defer cancelJudging()
	v, err := r.judge(judging, draw)
	require.NoError(h.t, err)
	h.add(r.n)
	// No later round knows these claims: they would be carried over again and again.
	h.exec("SELECT once.release(f.scope, f.key, f.claim_id, f.attempt) FROM once.in_flight AS f")
	return v
}

// connection is one of the harness's own, which is not terminated. Whoever is given it closes it.
func (h *harness) connection(r *round) *pgx.Conn {
	h.t.Helper()
	conn, err := r.connect("harness")
	require.NoError(h.t, err)
	return conn
}

// sweep looks every key up at the end, so that what was lost after everybody had turned to other keys is missed too.
func (r *round) sweep() error {
	keys := map[string]bool{}
	for _, e := range r.events {
		keys[e.key] = true
	}
	for _, tx := range r.transactions {
		for _, e := range tx.effects {
			keys[e.key] = true
		}
	}
	for key := range keys {
		call := r.clock.now()
		record, known, err := txn.Lookup(context.Background(), r.pool, pgonce.Key{Scope: "s", Key: key})
		if err != nil {
			return err
		}
		o := op{key: key, kind: notFound, stable: true}
		if known {
			o.kind, o.phase, o.result = found, phase(record.State), string(record.Result)
		}
		r.add(event{op: o, call: call, ret: r.clock.now()})
	}
	return nil
}

// add adds a round's totals, and those of the catalogue, which counts all rounds.
func (h *harness) add(n totals) {
	h.t.Helper()
	h.n.operations += n.operations
	h.n.transactions += n.transactions
	h.n.wins += n.wins
	h.n.takeovers += n.takeovers
	h.n.replays += n.replays
	h.n.rolledBack += n.rolledBack
	h.n.serialization += n.serialization
	h.n.deadlocks += n.deadlocks
	h.n.terminated += n.terminated
	h.n.unknown += n.unknown
	require.NoError(h.t, h.Pool.QueryRow(context.Background(),
		"SELECT count(*) - 1, count(dropped_at), sum(carried) FROM once.generation").Scan(&h.n.rotations, &h.n.retirements, &h.n.carried))
}
