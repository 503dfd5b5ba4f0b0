package oncetest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// childMode makes the test binary a program that finds a server, for tests that need a process of their own.
const childMode = "ONCETEST_CHILD"

func TestMain(m *testing.M) {
	if mode := os.Getenv(childMode); mode != "" {
		child(mode)
		return
	}
	os.Exit(m.Run())
}

// childServer is what a child reports.
type childServer struct {
	Error   string
	Source  Source
	URL     string
	PID     int
	DataDir string
}

// child reports on one line of stdout. Mode "hold" then waits to be killed.
func child(mode string) {
	server, err := FindServer(context.Background(), Options{Keep: mode == "keep"})
	report := childServer{}
	if err != nil {
		report.Error = err.Error()
	} else {
		report = childServer{Source: server.Source(), URL: server.URL(), PID: server.PID(), DataDir: server.DataDir()}
	}
	_ = json.NewEncoder(os.Stdout).Encode(report)
	if mode == "hold" {
		select {}
	}
}

// startChild starts a child, with more environment variables. The function returned waits for its report.
func startChild(t *testing.T, mode string, env ...string) (*exec.Cmd, func() childServer) {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(append(os.Environ(), childMode+"="+mode), env...)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return cmd, func() childServer {
		line, err := bufio.NewReader(stdout).ReadString('\n')
		require.NoError(t, err)
		var report childServer
		require.NoError(t, json.Unmarshal([]byte(line), &report))
		return report
	}
}

// localServer is shared by the tests that only look at a server.
func localServer(t *testing.T) *Server {
	t.Helper()
	server, err := sharedLocal()
	if err != nil {
		missing(t, os.Getenv, err)
	}
	return server
}

var sharedLocal = sync.OnceValues(func() (*Server, error) {
	return newFinder(environment{"PGONCE_TEST_SERVER": "local"}.get).find(context.Background(), Options{})
})

// environment stands for the variables of the process, except that it names the machine's programs if those do.
type environment map[string]string

func (e environment) get(name string) string {
	if v, ok := e[name]; ok {
		return v
	}
	if name == "PGONCE_PG_BINDIR" {
		return os.Getenv(name)
	}
	return ""
}

// recorder is a testing.TB that notes what is done to it.
type recorder struct {
	testing.TB

	failed   bool
	skipped  bool
	log      []string
	cleanups []func()
}

// record runs f as a test would be run, cleanups included.
func record(t *testing.T, f func(r *recorder)) *recorder {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	for _, f := range r.cleanups {
		f()
	}
	return r
}

func (r *recorder) Cleanup(f func())               { r.cleanups = append([]func(){f}, r.cleanups...) }
func (r *recorder) Errorf(format string, a ...any) { r.failed = true; r.Logf(format, a...) }
func (r *recorder) Failed() bool                   { return r.failed }
func (r *recorder) Fatal(a ...any) {
	r.failed = true
	r.log = append(r.log, fmt.Sprint(a...))
	runtime.Goexit()
}
func (r *recorder) Helper()                      {}
func (r *recorder) Logf(format string, a ...any) { r.log = append(r.log, fmt.Sprintf(format, a...)) }
func (r *recorder) Skip(a ...any) {
	r.skipped = true
	r.log = append(r.log, fmt.Sprint(a...))
	runtime.Goexit()
}
func (r *recorder) text() string { return strings.Join(r.log, "\n") }

// query returns the one value that sql gives.
func query[T any](t *testing.T, url, sql string, args ...any) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var v T
	require.NoError(t, withConn(ctx, url, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, sql, args...).Scan(&v)
	}))
	return v
}

func execute(t *testing.T, url, sql string) {
	t.Helper()
	require.NoError(t, withConn(t.Context(), url, func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), sql)
		return err
	}))
}

func databaseExists(t *testing.T, server *Server, name string) bool {
	t.Helper()
	return query[bool](t, server.URL(), "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name)
}
