// Package pgbouncer runs PgBouncer, in transaction mode, between tests and their databases.
package pgbouncer

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
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgonce/pgonce/internal/pgbin"
	"github.com/pgonce/pgonce/internal/testenv"
)

const (
	// Variable is what, set to 1, asks the suites that know of it to reach their databases through PgBouncer.
	Variable = "PGONCE_TEST_PGBOUNCER"

	// portAttempts bounds how often another port is tried when somebody else took the free one first.
	portAttempts = 10

	// startTimeout bounds the wait for PgBouncer to answer.
	startTimeout = 30 * time.Second

	// firstConns is how many server connections are open from the start.
	firstConns = 3
)

// Wanted reports whether Variable asks for PgBouncer.
func Wanted() bool {
	wanted, _ := strconv.ParseBool(os.Getenv(Variable))
	return wanted
}

// NeedsSession skips a test that cannot pass through PgBouncer in transaction mode, because it relies on what, which belongs
// to one session and outlives a transaction.
func NeedsSession(t testing.TB, what string) {
	t.Helper()
	Skip(t, "needs a session, which a pooler in transaction mode does not give: "+what)
}

// Skip skips a test that cannot pass through PgBouncer, and says why.
func Skip(t testing.TB, why string) {
	t.Helper()
	if Wanted() {
		t.Skip(why)
	}
}

// Find returns the path of the program.
func Find() (string, error) {
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return path, nil
	}
	const debian = "/usr/sbin/pgbouncer" // not in the PATH of every user
	if _, err := os.Stat(debian); err == nil {
		return debian, nil
	}
	return "", errors.New("there is no pgbouncer")
}

// Start starts a PgBouncer before the database of a URL, and returns the URL through it. It has up to poolSize server
// connections, several from the start, and takes them in turn, so that one transaction of a client rarely runs where the
// one before did. It ends with the test.
//
// Before 1.21 PgBouncer knows nothing of prepared statements, so the URL asks pgx for a mode that does without. Server
// connections have an empty search_path; what a client asks for at its start, search_path and statement_timeout, is
// ignored, because it would be a session's.
//
// Without the program the test is skipped, or fails with CI=true or where Variable asks for it.
func Start(t testing.TB, databaseURL string, poolSize int) string {
	t.Helper()
	program, err := Find()
	if err != nil {
		if Wanted() {
			t.Fatal(err)
		}
		testenv.Missing(t, err)
	}
	server, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	for range portAttempts {
		port, err := pgbin.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		if through, ok := start(t, program, server, port, poolSize); ok {
			if err := openTogether(through, min(poolSize, firstConns)); err != nil {
				t.Fatal(err)
			}
			return through
		}
	}
	t.Fatalf("PgBouncer did not start on any of %d ports", portAttempts)
	return ""
}

// start reports false if PgBouncer ended, as it does when somebody else has the port.
func start(t testing.TB, program string, server *pgx.ConnConfig, port, poolSize int) (through string, ok bool) {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgonce-pgbouncer-") // not of testing, whose folders another user may not enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	config := fmt.Sprintf(`[databases]
%[1]s = host=%[2]s port=%[3]d dbname=%[1]s user=%[4]s password=%[5]s connect_query='SET search_path TO '''''
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %[6]d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = %[7]d
server_round_robin = 1
max_client_conn = 200
ignore_startup_parameters = search_path, statement_timeout
`, server.Database, server.Host, server.Port, server.User, server.Password, port, poolSize)
	ini := filepath.Join(dir, "pgbouncer.ini")
	// PgBouncer may run as another user, and the password is a test's.
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(ini, []byte(config), 0o644)); err != nil { //nolint:gosec // as above
		t.Fatal(err)
	}
	args := []string{ini}
	if os.Getuid() == 0 { // which PgBouncer refuses to run as
		args = append([]string{"-u", "nobody"}, args...)
	}
	var log lockedBuffer
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // at once, without waiting for clients
		select {
		case <-ended:
		case <-time.After(startTimeout):
			t.Error("PgBouncer does not end")
		}
		if t.Failed() {
			t.Log(log.String())
		}
	})

	u := url.URL{
		Scheme: "postgres", User: url.User(server.User), Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		Path: server.Database, RawQuery: "sslmode=disable&default_query_exec_mode=exec",
	}
	deadline := time.Now().Add(startTimeout)
	for {
		err := answers(u.String())
		if err == nil {
			return u.String(), true
		}
		select {
		case <-ended:
			return "", false
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("PgBouncer does not answer: %v", err)
		}
	}
}

// answers asks for the database's name, since another program may listen on the port.
func answers(databaseURL string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	var name string
	if err := conn.QueryRow(ctx, "SELECT pg_catalog.current_database()").Scan(&name); err != nil {
		return err
	}
	if name != conn.Config().Database {
		return fmt.Errorf("it is the database %q", name)
	}
	return nil
}

// openTogether has n transactions open at the same time, which takes as many server connections. They stay.
func openTogether(databaseURL string, n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for range n {
		conn, err := pgx.Connect(ctx, databaseURL)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(ctx) }()
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(ctx) }() // before its connection is closed
		if _, err := tx.Exec(ctx, "SELECT"); err != nil {
			return err
		}
	}
	return nil
}

// lockedBuffer is written by a program while the test may read it.
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
