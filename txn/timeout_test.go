package txn_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/txn"
)

// PostgreSQL's own timeouts, as a caller, its role or its database may have set them.
const (
	statementTimeout   = "statement_timeout"
	lockTimeout        = "lock_timeout"
	idleTimeout        = "idle_in_transaction_session_timeout"
	transactionTimeout = "transaction_timeout" // from PostgreSQL 17 on
)

// timeoutCodes are the SQLSTATEs by which they end what they end.
var timeoutCodes = map[string]string{
	statementTimeout: "57014", lockTimeout: "55P03", idleTimeout: "25P03", transactionTimeout: "25P04",
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
	place     func(t *testing.T, holder pgx.Tx)
	statement string // of the function
}

// Where the timeouts strike. busy is a table of one row; sluggish gives its orders a trigger that updates it at COMMIT.
var obstacles = []obstacle{
	{"at the claim", []string{statementTimeout, lockTimeout, transactionTimeout}, func(t *testing.T, holder pgx.Tx) {
		_, err := txn.Claim(t.Context(), holder, request("k"))
		require.NoError(t, err)
	}, ""},
	{"in the function", []string{statementTimeout, lockTimeout, transactionTimeout}, lockBusy, "UPDATE public.busy SET n = n + 1"},
	{"in the function, which is idle", []string{idleTimeout, transactionTimeout}, func(*testing.T, pgx.Tx) {}, "idle"},
	{"at the completion", []string{statementTimeout, lockTimeout, transactionTimeout}, func(t *testing.T, holder pgx.Tx) {
		_, err := holder.Exec(t.Context(), "LOCK TABLE once_data.orders_g1 IN SHARE MODE") // completion writes, a claim of Run's does not
		require.NoError(t, err)
	}, ""},
	{"at COMMIT", []string{statementTimeout, lockTimeout, transactionTimeout}, lockBusy, "INSERT INTO public.sluggish VALUES (1)"},
}

func lockBusy(t *testing.T, holder pgx.Tx) {
	_, err := holder.Exec(t.Context(), "UPDATE public.busy SET n = n + 1")
	require.NoError(t, err)
}

// A timeout of the caller's ends the operation by an error that says so, nothing is half done, and the same call succeeds
// once what held it up is gone.
func TestTheCallersTimeouts(t *testing.T) {
	t.Parallel()
	for _, op := range timeoutOps {
		for _, way := range []string{"role", "database", "local"} {
			t.Run(op.name+", set for the "+way, func(t *testing.T) {
				t.Parallel()
				all, cases := newShop(t), 0
				for _, o := range obstacles {
					for _, setting := range o.settings {
						if all.count("pg_settings WHERE name = $1", setting) == 0 {
							continue // the server is older
						}
						if way == "local" && o.name == "at the claim" && !op.claim {
							continue // there is no transaction yet that it could be local to
						}
						cases++
						t.Run(o.name+", "+setting, func(t *testing.T) { testTimeout(t, all.again(t), op, way, o, setting) })
					}
				}
				require.GreaterOrEqual(t, cases, 7)
			})
		}
	}
}

func testTimeout(t *testing.T, s *shop, op timeoutOp, way string, o obstacle, setting string) {
	s.exec(`CREATE TABLE public.busy (n integer);
		INSERT INTO public.busy VALUES (0);
		CREATE TABLE public.sluggish (n integer);
		CREATE FUNCTION public.linger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE public.busy SET n = n + 1; RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER linger AFTER INSERT ON public.sluggish DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW EXECUTE FUNCTION public.linger()`)
	const timeout = "'400ms'"
	prologue := ""
	holder, err := s.conn().Begin(t.Context()) // before the setting: it does not have it
	require.NoError(t, err)
	o.place(t, holder)
	database := pgx.Identifier{s.Pool.Config().ConnConfig.Database}.Sanitize()
	switch way {
	case "role":
		s.exec("ALTER ROLE CURRENT_USER IN DATABASE " + database + " SET " + setting + " = " + timeout)
		defer s.exec("ALTER ROLE CURRENT_USER IN DATABASE " + database + " RESET ALL")
	case "database":
		s.exec("ALTER DATABASE " + database + " SET " + setting + " = " + timeout)
		defer s.exec("ALTER DATABASE " + database + " RESET ALL")
	case "local":
		prologue = "SET LOCAL " + setting + " = " + timeout
	}
	do, idle := op.run(t, s.URL)
	held := true
	once := func() (pgonce.Outcome, error) {
		return do(request("k"), prologue, func(exec func(sql string) error) error {
			if err := exec("INSERT INTO public.orders (ref) VALUES ('a')"); err != nil {
				return err
			}
			if o.statement != "idle" {
				return exec(o.statement)
			}
			if held { // says nothing to the database until its session is over
				eventually(t, func() bool {
					return s.count("pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction' AND pid <> $1",
						holder.Conn().PgConn().PID()) == 0
				}, "the session is not ended")
			}
			return nil
		})
	}

	_, err = once()
	if setting == lockTimeout && o.name == "at the claim" {
		require.ErrorIs(t, err, pgonce.ErrInProgress)
	} else {
		require.Equal(t, timeoutCodes[setting], pgonce.Code(err), err)
		require.NotErrorIs(t, err, pgonce.ErrOutcomeUnknown, "the server has said that it did nothing")
		require.NotErrorIs(t, err, pgonce.ErrInProgress)
	}
	eventually(t, idle, "the connection was not given back")
	require.Zero(t, s.orders())
	require.Zero(t, s.count("once_data.orders WHERE state <> 'tombstone'"))
	require.Zero(t, s.count("public.sluggish"))

	held = false
	require.NoError(t, holder.Rollback(t.Context()))
	var outcome pgonce.Outcome
	eventually(t, func() bool { // a machine may be too slow for the timeout even when nothing is in the way
		outcome, err = once()
		return err == nil
	}, fmt.Sprintf("the call does not succeed: %v", err))
	require.Equal(t, pgonce.Fresh, outcome)
	s.requireOnce()
	eventually(t, func() bool {
		outcome, err = once()
		return err == nil
	}, fmt.Sprintf("the duplicate does not succeed: %v", err))
	require.Equal(t, pgonce.Replay, outcome)
	s.requireOnce()
	eventually(t, idle, "the connection was not given back")
	require.Equal(t, strings.Count(o.statement, "UPDATE")+strings.Count(o.statement, "sluggish"), s.count("public.busy WHERE n = 1"))
}

// An error that the function swallows is no success, whatever timeout caused it.
func TestASwallowedTimeoutIsNotASuccess(t *testing.T) {
	t.Parallel()
	for _, op := range timeoutOps {
		t.Run(op.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
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
