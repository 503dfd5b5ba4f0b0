package txn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/txn"
)

// throughPgBouncer starts a PgBouncer before the database and returns the URL through it: transaction pooling, two server
// connections, so that a client is often given another one. It is skipped where there is no PgBouncer, but not with CI=true.
func (s *shop) throughPgBouncer() string {
	s.t.Helper()
	program, err := findPgBouncer()
	if err != nil {
		if ci, _ := strconv.ParseBool(os.Getenv("CI")); ci {
			s.t.Fatal(err)
		}
		s.t.Skip(err)
	}
	server, err := pgx.ParseConfig(s.URL)
	require.NoError(s.t, err)
	port := freePort(s.t)
	dir, err := os.MkdirTemp("", "pgonce-pgbouncer-") // not of testing, whose folders another user may not enter
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(s.t, os.Chmod(dir, 0o755)) //nolint:gosec // PgBouncer runs as another user, and the password is a test's
	ini := filepath.Join(dir, "pgbouncer.ini")
	config := fmt.Sprintf(`[databases]
%[1]s = host=%[2]s port=%[3]d dbname=%[1]s user=%[4]s password=%[5]s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %[6]d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
max_client_conn = 100
`, server.Database, server.Host, server.Port, server.User, server.Password, port)
	require.NoError(s.t, os.WriteFile(ini, []byte(config), 0o644)) //nolint:gosec // as above

	args := []string{ini}
	if os.Getuid() == 0 { // which PgBouncer refuses to run as
		args = append([]string{"-u", "nobody"}, args...)
	}
	var log lockedBuffer
	cmd := exec.CommandContext(context.Background(), program, args...)
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(s.t, cmd.Start())
	ended := async(cmd.Wait)
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // at once, without waiting for clients
		receive(s.t, ended)
		if s.t.Failed() {
			s.t.Log(log.String())
		}
	})
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	eventually(s.t, func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, "PgBouncer does not listen")
	u := url.URL{Scheme: "postgres", User: url.User(server.User), Host: address, Path: server.Database, RawQuery: "sslmode=disable"}
	return u.String()
}

func findPgBouncer() (string, error) {
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return path, nil
	}
	const debian = "/usr/sbin/pgbouncer" // not in the PATH of every user
	if _, err := os.Stat(debian); err == nil {
		return debian, nil
	}
	return "", errors.New("there is no pgbouncer")
}

func freePort(t testing.TB) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Before 1.21 PgBouncer knows nothing of prepared statements, so only the modes without them can be promised.
func TestPgBouncerInTransactionMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			configure := func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode; c.MaxConns = 8 }
			all := newShop(t)
			url := all.throughPgBouncer()
			t.Run("core", func(t *testing.T) {
				s := all.again(t)
				pool := openPool(t, url, configure)
				requireCore(t, s, runnerOf(pool))
				s.requireIdle(pool)
			})
			t.Run("core over database/sql", func(t *testing.T) {
				s := all.again(t)
				db := stdlib.OpenDBFromPool(openPool(t, url, configure))
				defer func() { _ = db.Close() }()
				requireCore(t, s, runnerOfSQL(db))
			})
			t.Run("many clients", func(t *testing.T) {
				s := all.again(t)
				pool := openPool(t, url, configure)
				together(40, func(i int) {
					ref := fmt.Sprint("k", i%4)
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					defer cancel()
					result, err := txn.Run(ctx, pool, request(ref), func(ctx context.Context, tx pgx.Tx) (string, error) {
						_, err := order(ref)(ctx, tx)
						return ref, err
					})
					if err != nil || result.Value != ref {
						t.Errorf("%+v: %v", result, err)
					}
				})
				require.Equal(t, 4, s.orders())
				require.Equal(t, 4, s.keys())
				s.requireIdle(pool)
			})
		})
	}
}
