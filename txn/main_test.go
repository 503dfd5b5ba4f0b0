package txn_test

import (
	"context"
	"flag"
	"runtime"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pgonce/pgonce/internal/pgbouncer"
	"github.com/pgonce/pgonce/oncetest"
	"github.com/pgonce/pgonce/txn"
)

func TestMain(m *testing.M) {
	// The tests wait for the database more than they compute: a machine of few processors runs more of them at once.
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		_ = parallel.Value.Set(strconv.Itoa(max(6, runtime.GOMAXPROCS(0))))
	}
	goleak.VerifyTestMain(m)
}

// shop is a database with something to do once in it: the scope orders, and a table that nothing keeps from having an
// order twice.
type shop struct {
	*oncetest.DB
	t      testing.TB
	direct string // the URL without PgBouncer, if there is one
}

func newShop(t testing.TB) *shop {
	t.Helper()
	db := oncetest.Postgres(t)
	s := &shop{db, t, db.URL}
	if pgbouncer.Wanted() {
		through := *db
		through.URL = pgbouncer.Start(t, db.URL, pooledConns)
		through.Pool = openPool(t, through.URL, nil)
		s.DB = &through
	}
	s.open()
	return s
}

// pooledConns is how many server connections a test has through PgBouncer: no fewer than the transactions that it has open.
const pooledConns = 20

// again gives a subtest the database as newShop made it. Subtests that share one so run one after the other.
func (s *shop) again(t testing.TB) *shop {
	t.Helper()
	s = &shop{s.DB, t, s.direct}
	s.exec(`SELECT once.drop_scope('orders', p_discard_keys => true);
		DO $$
		DECLARE v_object text;
		BEGIN
			FOR v_object IN
				SELECT 'TABLE ' || oid::regclass FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
				UNION ALL
				SELECT 'FUNCTION ' || oid::regprocedure FROM pg_proc WHERE pronamespace = 'public'::regnamespace
			LOOP
				EXECUTE 'DROP ' || v_object || ' CASCADE';
			END LOOP;
		END $$`)
	s.open()
	return s
}

func (s *shop) open() {
	s.t.Helper()
	s.exec(`CREATE TABLE public.orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, ref text NOT NULL);
		SELECT once.create_scope('orders', '7 days', '3 days')`)
}

func request(key string) txn.Request { return txn.Request{Scope: "orders", Key: key} }

// order is the business: it adds an order and returns its id.
func order(ref string) func(context.Context, pgx.Tx) (int64, error) {
	return func(ctx context.Context, tx pgx.Tx) (id int64, err error) {
		err = tx.QueryRow(ctx, "INSERT INTO public.orders (ref) VALUES ($1) RETURNING id", ref).Scan(&id)
		return id, err
	}
}

// never is a function that must not be called.
func never[T any](t testing.TB) func(context.Context, pgx.Tx) (T, error) {
	return func(context.Context, pgx.Tx) (T, error) {
		t.Error("the function was called")
		return *new(T), nil
	}
}

// exec runs statements without parameters.
func (s *shop) exec(sql string) {
	s.t.Helper()
	_, err := s.Pool.Exec(context.Background(), sql, pgx.QueryExecModeSimpleProtocol)
	require.NoError(s.t, err)
}

func (s *shop) count(sql string, args ...any) (n int) {
	s.t.Helper()
	require.NoError(s.t, s.Pool.QueryRow(context.Background(), "SELECT count(*) FROM "+sql, args...).Scan(&n))
	return n
}

// orders is how many orders there are.
func (s *shop) orders() int { s.t.Helper(); return s.count("public.orders") }

// keys is how many keys are stored, in whatever state.
func (s *shop) keys() int {
	s.t.Helper()
	return s.count("once_data.orders WHERE state <> 'tombstone'")
}

// requireNothing says that neither an order nor a key was left.
func (s *shop) requireNothing() {
	s.t.Helper()
	require.Zero(s.t, s.orders(), "orders")
	require.Zero(s.t, s.keys(), "keys")
}

// requireOnce says that there is one order, and one key for it.
func (s *shop) requireOnce() {
	s.t.Helper()
	require.Equal(s.t, 1, s.orders(), "orders")
	require.Equal(s.t, 1, s.keys(), "keys")
}

// requireIdle says that all connections of the pool are given back, in good order.
func (s *shop) requireIdle(pool *pgxpool.Pool) {
	s.t.Helper()
	eventually(s.t, func() bool { return pool.Stat().AcquiredConns() == 0 }, "a connection was not given back")
	eventually(s.t, func() bool {
		return s.count("pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'") == 0
	}, "a transaction was left open")
}

// pool returns another pool of the database, as configured.
func (s *shop) pool(configure func(*pgxpool.Config)) *pgxpool.Pool {
	s.t.Helper()
	return openPool(s.t, s.URL, configure)
}

func openPool(t testing.TB, url string, configure func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	if configure != nil {
		configure(config)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() { // perhaps because a connection is not given back, for which Close would wait
			go pool.Close()
			return
		}
		pool.Close()
	})
	return pool
}

// conn returns a connection of its own.
func (s *shop) conn() *pgx.Conn {
	s.t.Helper()
	return connect(s.t, s.URL)
}

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// awaitLock returns once a backend of this database waits for a lock of the given type (advisory, transactionid).
func (s *shop) awaitLock(locktype string) {
	s.t.Helper()
	eventually(s.t, func() bool {
		return s.count(`pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
			WHERE a.datname = current_database() AND NOT l.granted AND l.locktype = $1`, locktype) > 0
	}, "nobody waits for a lock of type "+locktype)
}
