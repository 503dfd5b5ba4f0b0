package txn_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/internal/pgbouncer"
	"github.com/pgonce/pgonce/txn"
)

// PostgreSQL's own timeouts, as a caller, its role or its database may have set them.
const (
	statementTimeout   = "statement_timeout"
	lockTimeout        = "lock_timeout"
	idleTimeout        = "idle_in_transaction_session_timeout"
	transactionTimeout = "transaction_timeout" // from PostgreSQL 17 on
)

// timeouts are the SQLSTATEs by which they end what they end, and how long they are. A transaction that has to connect first
// takes longer than another, and the timeouts but for the last one spare the connection or time pauses alone.
var timeouts = map[string]struct{ code, length string }{
	statementTimeout: {"57014", "'100ms'"}, lockTimeout: {"55P03", "'100ms'"}, idleTimeout: {"25P03", "'100ms'"}, transactionTimeout: {"25P04", "'400ms'"},
}

// timeoutOp does an operation over a pool of one connection. prologue is run in the transaction before the claim, where
// the caller has begun it, otherwise as the first statement of the function.
type timeoutOp struct {
	name  string
	claim bool // whether the transaction is the caller's
	run   func(t *testing.T, url string) (do func(req txn.Request, prologue string, fn timeoutFunc) (pgonce.Outcome, error), idle func() bool)
}

// timeoutFunc is the function; exec runs statements in its transaction.
type timeoutFunc func(exec func(sql string) error) error

var timeoutOps = []timeoutOp{
	{"Run", false, func(t *testing.T, url string) (func(txn.Request, string, timeoutFunc) (pgonce.Outcome, error), func() bool) {
		pool := openPool(t, url, func(c *pgxpool.Config) { c.MaxConns = 1 })
		return func(req txn.Request, prologue string, fn timeoutFunc) (pgonce.Outcome, error) {
			result, err := txn.Run(context.Background(), pool, req, func(ctx context.Context, tx pgx.Tx) (string, error) {
				exec := func(sql string) error { _, err := tx.Exec(ctx, sql); return err }
				return "done", errors.Join(exec(prologue), fn(exec))
			})
			return result.Outcome, err
		}, func() bool { return pool.Stat().AcquiredConns() == 0 }
	}},
	{"RunSQL", false, func(t *testing.T, url string) (func(txn.Request, string, timeoutFunc) (pgonce.Outcome, error), func() bool) {
		pool := openSQL(t, url)
		pool.SetMaxOpenConns(1)
		return func(req txn.Request, prologue string, fn timeoutFunc) (pgonce.Outcome, error) {
			result, err := txn.RunSQL(context.Background(), pool, req, func(ctx context.Context, tx *sql.Tx) (string, error) {
				exec := func(sql string) error { _, err := tx.ExecContext(ctx, sql); return err }
				return "done", errors.Join(exec(prologue), fn(exec))
			})
			return result.Outcome, err
		}, func() bool { return pool.Stats().InUse == 0 }
	}},
	{"Claim", true, func(t *testing.T, url string) (func(txn.Request, string, timeoutFunc) (pgonce.Outcome, error), func() bool) {
		pool := openPool(t, url, func(c *pgxpool.Config) { c.MaxConns = 1 })
		return func(req txn.Request, prologue string, fn timeoutFunc) (outcome pgonce.Outcome, err error) {
			ctx := context.Background()
			err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				exec := func(sql string) error { _, err := tx.Exec(ctx, sql); return err }
				if err := exec(prologue); err != nil {
					return err
				}
				claimed, err := txn.Claim(ctx, tx, req)
				if err != nil {
					return err
				}
				if outcome = claimed.Outcome; outcome == pgonce.Replay {
					return nil
				}
				if err := fn(exec); err != nil {
					return err
				}
				return claimed.Complete(ctx, "done")
			})
			return outcome, err
		}, func() bool { return pool.Stat().AcquiredConns() == 0 }
	}},
}

// obstacle is what holds an operation up until the timeout strikes. The holder is a transaction of somebody else.
type obstacle struct {
	name      string
	settings  []string
	place     func(t *testing.T, holder pgx.Tx, req txn.Request)
	statement string // of the function
}

// Where the timeouts strike. busy is a table of one row; sluggish gives its orders a trigger that updates it at COMMIT.
// The server stops the clock of statement_timeout before COMMIT runs it: that is bounded by Request.CommitTimeout alone.
var obstacles = []obstacle{
	{"at the claim", []string{statementTimeout, lockTimeout, transactionTimeout}, func(t *testing.T, holder pgx.Tx, req txn.Request) {
		_, err := txn.Claim(t.Context(), holder, req)
		require.NoError(t, err)
	}, ""},
	{"in the function", []string{statementTimeout, lockTimeout, transactionTimeout}, lockBusy, "UPDATE public.busy SET n = n + 1"},
	{"in the function, which is idle", []string{idleTimeout, transactionTimeout}, func(*testing.T, pgx.Tx, txn.Request) {}, idle},
	{"at the completion", []string{statementTimeout, lockTimeout, transactionTimeout}, func(t *testing.T, holder pgx.Tx, _ txn.Request) {
		_, err := holder.Exec(t.Context(), "LOCK TABLE once_data.orders_g1 IN SHARE MODE") // completion writes, a claim of Run's does not
		require.NoError(t, err)
	}, ""},
	{"at COMMIT", []string{lockTimeout, transactionTimeout}, lockBusy, "INSERT INTO public.sluggish VALUES (1)"},
}

// idle is a function that says nothing to the database until its session is over.
const idle = "idle"

func lockBusy(t *testing.T, holder pgx.Tx, _ txn.Request) {
	_, err := holder.Exec(t.Context(), "UPDATE public.busy SET n = n + 1")
	require.NoError(t, err)
}

// A timeout of the caller's ends the operation by an error that says so, nothing is half done, and the same call succeeds
// once what held it up is gone.
func TestTheCallersTimeouts(t *testing.T) {
	t.Parallel()
	pgbouncer.NeedsSession(t, "a role's or a database's settings as of now")
	for _, op := range timeoutOps {
		t.Run(op.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.exec(`CREATE TABLE public.busy (n integer);
				INSERT INTO public.busy VALUES (0);
				CREATE TABLE public.sluggish (n integer);
				CREATE FUNCTION public.linger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE public.busy SET n = n + 1; RETURN NULL; END $$;
				CREATE CONSTRAINT TRIGGER linger AFTER INSERT ON public.sluggish DEFERRABLE INITIALLY DEFERRED
					FOR EACH ROW EXECUTE FUNCTION public.linger()`)
			holder := s.conn() // before the settings: it does not have them
			for _, way := range []string{"role", "database", "local"} {
				cases := 0
				for _, setting := range slices.Sorted(maps.Keys(timeouts)) {
					if s.count("pg_settings WHERE name = $1", setting) == 0 {
						continue // the server is older
					}
					t.Run(setting+" of the "+way, func(t *testing.T) {
						cases += testTimeout(t, &shop{s.DB, t, s.direct}, holder, op, way, setting)
					})
				}
				require.GreaterOrEqual(t, cases, 6, way)
			}
		})
	}
}

// testTimeout runs into every obstacle, over one connection as long as the timeout spares it, and returns how many there were.
func testTimeout(t *testing.T, s *shop, holder *pgx.Conn, op timeoutOp, way, setting string) (cases int) {
	set, prologue := setting+" = "+timeouts[setting].length, ""
	database := pgx.Identifier{s.Pool.Config().ConnConfig.Database}.Sanitize()
	switch way {
	case "role":
		s.exec("ALTER ROLE CURRENT_USER IN DATABASE " + database + " SET " + set)
		defer s.exec("ALTER ROLE CURRENT_USER IN DATABASE " + database + " RESET ALL")
	case "database":
		s.exec("ALTER DATABASE " + database + " SET " + set)
		defer s.exec("ALTER DATABASE " + database + " RESET ALL")
	case "local":
		prologue = "SET LOCAL " + set
	}
	do, givenBack := op.run(t, s.URL)
	// succeed repeats: a machine may be too slow for the timeout even when nothing is in the way.
	succeed := func(req txn.Request, fn timeoutFunc) (outcome pgonce.Outcome) {
		var err error
		eventually(t, func() bool {
			outcome, err = do(req, prologue, fn)
			return err == nil
		}, "the call does not succeed")
		return outcome
	}
	succeed(request(fmt.Sprintf("before %s of the %s", setting, way)), func(func(string) error) error { return nil }) // so that the connection is quick from now on

	for _, o := range obstacles {
		if !slices.Contains(o.settings, setting) {
			continue
		}
		if way == "local" && o.name == "at the claim" && !op.claim {
			continue // there is no transaction yet that it could be local to
		}
		cases++
		when := fmt.Sprintf("%s: %s of the %s", o.name, setting, way)
		req := request(when)
		before := workOf(s)
		hold, err := holder.Begin(t.Context())
		require.NoError(t, err)
		o.place(t, hold, req)
		held := true
		fn := func(exec func(sql string) error) error {
			if err := exec("INSERT INTO public.orders (ref) VALUES ('a')"); err != nil {
				return err
			}
			if o.statement != idle {
				return exec(o.statement)
			}
			if held {
				eventually(t, func() bool {
					return s.count("pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction' AND pid <> $1",
						holder.PgConn().PID()) == 0
				}, "the session is not ended")
			}
			return nil
		}

		_, err = do(req, prologue, fn)
		if setting == lockTimeout && o.name == "at the claim" {
			require.ErrorIs(t, err, pgonce.ErrInProgress, when)
		} else {
			require.Equal(t, timeouts[setting].code, pgonce.Code(err), "%s: %v", when, err)
			require.NotErrorIs(t, err, pgonce.ErrOutcomeUnknown, "%s: the server has said that it did nothing", when)
			require.NotErrorIs(t, err, pgonce.ErrInProgress, when)
		}
		eventually(t, givenBack, "the connection was not given back")
		require.Equal(t, before, workOf(s), when)

		held = false
		require.NoError(t, hold.Rollback(t.Context()))
		want := work{before.orders + 1, before.keys + 1, before.sluggish, before.busy}
		want.sluggish += strings.Count(o.statement, "sluggish")
		want.busy += strings.Count(o.statement, "UPDATE") + strings.Count(o.statement, "sluggish")
		require.Equal(t, pgonce.Fresh, succeed(req, fn), when)
		require.Equal(t, want, workOf(s), when)
		require.Equal(t, pgonce.Replay, succeed(req, fn), when)
		require.Equal(t, want, workOf(s), when)
		eventually(t, givenBack, "the connection was not given back")
	}
	return cases
}

// work is what has been done in a database: how many orders, keys and sluggish orders there are, and how often busy was updated.
type work struct{ orders, keys, sluggish, busy int }

func workOf(s *shop) (w work) {
	s.t.Helper()
	w = work{orders: s.orders(), keys: s.keys(), sluggish: s.count("public.sluggish")}
	require.NoError(s.t, s.Pool.QueryRow(context.Background(), "SELECT n FROM public.busy").Scan(&w.busy))
	return w
}

// An error that the function swallows is no success, whatever timeout caused it.
func TestASwallowedTimeoutIsNotASuccess(t *testing.T) {
	t.Parallel()
	all := newShop(t)
	for _, op := range timeoutOps {
		t.Run(op.name, func(t *testing.T) {
			s := all.again(t)
			do, idle := op.run(t, s.URL)
			_, err := do(request("k"), "SET LOCAL statement_timeout = '50ms'", func(exec func(string) error) error {
				require.NoError(t, exec("INSERT INTO public.orders (ref) VALUES ('a')"))
				require.Equal(t, "57014", pgonce.Code(exec("SELECT pg_sleep(60)")))
				return nil
			})
			require.Error(t, err)
			require.NotErrorIs(t, err, pgonce.ErrOutcomeUnknown)
			eventually(t, idle, "the connection was not given back")
			s.requireNothing()
			outcome, err := do(request("k"), "", func(exec func(string) error) error {
				return exec("INSERT INTO public.orders (ref) VALUES ('a')")
			})
			require.NoError(t, err, "the timeout was local to the transaction")
			require.Equal(t, pgonce.Fresh, outcome)
			s.requireOnce()
		})
	}
}
