package txn_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/internal/pgbouncer"
	"github.com/pgonce/pgonce/internal/pgproxy"
	"github.com/pgonce/pgonce/txn"
)

// throughProxy returns a proxy before the server of the database, and the database's URL through it.
func (s *shop) throughProxy() (*pgproxy.Proxy, string) {
	s.t.Helper()
	// PgBouncer 1.18 ends with "bad client state".
	pgbouncer.Skip(s.t, "a connection that is cut at some messages ends the whole PgBouncer")
	u, err := url.Parse(s.URL)
	require.NoError(s.t, err)
	config, err := pgx.ParseConfig(s.URL)
	require.NoError(s.t, err)
	proxy, err := pgproxy.Start(net.JoinHostPort(config.Host, fmt.Sprint(config.Port)))
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = proxy.Close() })
	u.Host = proxy.Addr()
	query := u.Query()
	query.Del("host")
	query.Del("port")
	query.Set("sslmode", "disable")
	u.RawQuery = query.Encode()
	return proxy, u.String()
}

// warm does something, so that what follows goes by a known epoch and prepared statements.
func warm(t *testing.T, db txn.Beginner) {
	t.Helper()
	_, err := txn.Consume(t.Context(), db, request("warm"), func(context.Context, pgx.Tx) error { return nil })
	require.NoError(t, err)
	_, err = txn.Consume(t.Context(), db, request("warm"), func(context.Context, pgx.Tx) error { return nil })
	require.NoError(t, err)
}

func eachCut(t *testing.T, test func(t *testing.T, s *shop, proxy *pgproxy.Proxy, url string, when pgproxy.When)) {
	t.Helper()
	all := newShop(t)
	for _, when := range []pgproxy.When{pgproxy.BeforeServer, pgproxy.AfterServer} {
		t.Run(when.String(), func(t *testing.T) {
			s := all.again(t)
			proxy, url := s.throughProxy()
			test(t, s, proxy, url, when)
		})
	}
}

// expectedCalls is how often a function runs that ends with a cut: again only if its COMMIT never arrived.
func expectedCalls(when pgproxy.When) int {
	if when == pgproxy.BeforeServer {
		return 2
	}
	return 1
}

func TestALostCommitIsCleared(t *testing.T) {
	t.Parallel()
	eachCut(t, func(t *testing.T, s *shop, proxy *pgproxy.Proxy, url string, when pgproxy.When) {
		pool := openPool(t, url, nil)
		for i, key := range []string{"through the dispatcher", "by the epoch"} {
			calls := 0
			proxy.CutCommit(when)
			result, err := txn.Run(t.Context(), pool, request(key), func(ctx context.Context, tx pgx.Tx) (string, error) {
				calls++
				_, err := order(key)(ctx, tx)
				return key, err
			})
			require.NoError(t, err)
			require.Equal(t, i+1, proxy.Cuts())
			require.Equal(t, pgonce.Fresh, result.Outcome)
			require.Equal(t, key, result.Value)
			require.Equal(t, expectedCalls(when), calls)
			require.Equal(t, i+1, s.orders())
			require.Equal(t, i+1, s.keys())
		}
		s.requireIdle(pool)
	})
}

func TestSeveralLostCommitsAreCleared(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	proxy, url := s.throughProxy()
	pool := openPool(t, url, nil)
	for _, when := range []pgproxy.When{pgproxy.BeforeServer, pgproxy.BeforeServer, pgproxy.AfterServer} {
		proxy.CutCommit(when)
	}
	calls := 0
	result, err := txn.Run(t.Context(), pool, request("k"), func(ctx context.Context, tx pgx.Tx) (int, error) {
		calls++
		_, err := order("a")(ctx, tx)
		return calls, err
	})
	require.NoError(t, err)
	require.Equal(t, 3, calls)
	require.Equal(t, 3, result.Value)
	require.Equal(t, pgonce.Fresh, result.Outcome)
	s.requireOnce()
}

func TestALostCommitOfConsumeIsCleared(t *testing.T) {
	t.Parallel()
	eachCut(t, func(t *testing.T, s *shop, proxy *pgproxy.Proxy, url string, when pgproxy.When) {
		proxy.CutCommit(when)
		outcome, err := txn.Consume(t.Context(), openPool(t, url, nil), request("k"), func(ctx context.Context, tx pgx.Tx) error {
			_, err := order("a")(ctx, tx)
			return err
		})
		require.NoError(t, err)
		require.Equal(t, pgonce.Fresh, outcome)
		s.requireOnce()
	})
}

func TestALostCommitOfARefusalIsCleared(t *testing.T) {
	t.Parallel()
	eachCut(t, func(t *testing.T, s *shop, proxy *pgproxy.Proxy, url string, when pgproxy.When) {
		proxy.CutCommit(when)
		_, err := txn.Run(t.Context(), openPool(t, url, nil), request("k"), func(ctx context.Context, tx pgx.Tx) (int64, error) {
			_, err := order("a")(ctx, tx)
			require.NoError(t, err)
			return 0, txn.Final(errBusiness)
		})
		var failed *pgonce.FailedError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, errBusiness.Error(), failed.Message)
		require.False(t, failed.Replayed, "the refusal was this call's own")
		require.ErrorIs(t, err, errBusiness)
		require.Zero(t, s.orders())
		require.Equal(t, 1, s.keys())
	})
}

func TestALostCommitThatAnotherReplacedIsAReplay(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	proxy, url := s.throughProxy()
	proxy.CutCommit(pgproxy.BeforeServer)
	var theirs <-chan error
	result, err := txn.Run(t.Context(), openPool(t, url, nil), request("k"), func(ctx context.Context, tx pgx.Tx) (int64, error) {
		theirs = async(func() error { // waits for the key, and is next when the connection is gone
			_, err := txn.Run(context.Background(), s.Pool, request("k"), func(ctx context.Context, tx pgx.Tx) (int64, error) {
				_, err := order("theirs")(ctx, tx)
				return 42, err
			})
			return err
		})
		s.awaitLock("advisory")
		return order("ours")(ctx, tx)
	})
	require.NoError(t, receive(t, theirs))
	require.NoError(t, err)
	require.Equal(t, pgonce.Replay, result.Outcome)
	require.Equal(t, int64(42), result.Value)
	s.requireOnce()
}

func TestALostCommitOfAConnectionIsUnknownUntilCalledAgain(t *testing.T) {
	t.Parallel()
	eachCut(t, func(t *testing.T, s *shop, proxy *pgproxy.Proxy, url string, when pgproxy.When) {
		conn := connect(t, url)
		proxy.CutCommit(when)
		_, err := txn.Run(t.Context(), conn, request("k"), order("a"))
		require.ErrorIs(t, err, pgonce.ErrOutcomeUnknown)
		require.True(t, conn.IsClosed())

		result, err := txn.Run(t.Context(), s.Pool, request("k"), order("a"))
		require.NoError(t, err)
		if when == pgproxy.AfterServer {
			require.Equal(t, pgonce.Replay, result.Outcome)
		} else {
			require.Equal(t, pgonce.Fresh, result.Outcome)
		}
		s.requireOnce()
	})
}

func TestALostCommitOfAWrapperIsUnknown(t *testing.T) {
	t.Parallel()
	eachCut(t, func(t *testing.T, s *shop, proxy *pgproxy.Proxy, url string, when pgproxy.When) {
		pool := openPool(t, url, nil)
		proxy.CutCommit(when)
		_, err := txn.Run(t.Context(), wrapper{pool}, request("k"), order("a"))
		require.ErrorIs(t, err, pgonce.ErrOutcomeUnknown)
		s.requireIdle(pool)
	})
}

// The server is not to be had any more after the COMMIT.
func TestALostCommitThatCannotBeLookedUpIsUnknown(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	proxy, url := s.throughProxy()
	pool := openPool(t, url, func(c *pgxpool.Config) {
		c.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
			if proxy.Cuts() > 0 {
				return errors.New("the server is gone")
			}
			return nil
		}
	})
	req := request("k")
	req.MaxRetries = 2
	proxy.CutCommit(pgproxy.AfterServer)
	_, err := txn.Run(t.Context(), pool, req, order("a"))
	require.ErrorIs(t, err, pgonce.ErrOutcomeUnknown)
	require.ErrorContains(t, err, "the server is gone")
	s.requireOnce()
}

func TestACutConnectionBeforeCommitIsAnErrorAndLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(ctx context.Context, s *shop, proxy *pgproxy.Proxy, tx pgx.Tx) error{
		"by the server": func(ctx context.Context, s *shop, _ *pgproxy.Proxy, tx pgx.Tx) error {
			var pid int
			if err := tx.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
				return err
			}
			_, err := s.Pool.Exec(ctx, "SELECT pg_terminate_backend($1, 10000)", pid)
			return err
		},
		"by the network": func(_ context.Context, _ *shop, proxy *pgproxy.Proxy, _ pgx.Tx) error { return proxy.Close() },
	} {
		for _, seen := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, seen by the function %v", name, seen), func(t *testing.T) {
				t.Parallel()
				s := newShop(t)
				proxy, url := s.throughProxy()
				pool := openPool(t, url, nil)
				warm(t, pool)
				req := request("k")
				req.MaxRetries = 1
				_, err := txn.Run(t.Context(), pool, req, func(ctx context.Context, tx pgx.Tx) (int64, error) {
					id, err := order("a")(ctx, tx)
					require.NoError(t, err)
					require.NoError(t, cut(ctx, s, proxy, tx))
					if seen {
						_, err = order("b")(ctx, tx)
						require.Error(t, err)
					}
					return id, err
				})
				require.Error(t, err)
				require.Zero(t, s.orders())
				s.requireIdle(pool)
				result, err := txn.Run(t.Context(), s.Pool, request("k"), order("a"))
				require.NoError(t, err)
				require.Equal(t, pgonce.Fresh, result.Outcome)
				require.Equal(t, 1, s.orders())
			})
		}
	}
}

func TestALostCommitOfDatabaseSQLIsCleared(t *testing.T) {
	t.Parallel()
	eachCut(t, func(t *testing.T, s *shop, proxy *pgproxy.Proxy, url string, when pgproxy.When) {
		db := openSQL(t, url)
		calls := 0
		proxy.CutCommit(when)
		result, err := txn.RunSQL(t.Context(), db, request("k"), func(ctx context.Context, tx *sql.Tx) (int64, error) {
			calls++
			return orderSQL("a")(ctx, tx)
		})
		require.NoError(t, err)
		require.Equal(t, 1, proxy.Cuts())
		require.Equal(t, pgonce.Fresh, result.Outcome)
		require.Equal(t, expectedCalls(when), calls)
		s.requireOnce()
	})
}

// A lost COMMIT of an operation on another connection is that operation's affair.
func TestALostCommitOfAnInnerOperationIsNotTheOuters(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	proxy, url := s.throughProxy()
	conn := connect(t, url)
	proxy.CutCommit(pgproxy.AfterServer)
	calls := 0
	_, err := txn.Run(t.Context(), s.Pool, request("outer"), func(ctx context.Context, tx pgx.Tx) (int64, error) {
		calls++
		_, err := txn.Run(ctx, conn, request("inner"), order("inner"))
		return 0, err
	})
	require.ErrorIs(t, err, pgonce.ErrOutcomeUnknown)
	require.Equal(t, 1, calls)
	require.Equal(t, 1, s.keys(), "of the inner one")
}
