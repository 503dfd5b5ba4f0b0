package oncetest

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/internal/pgbin"
)

func itoa(n int) string { return strconv.Itoa(n) }

func portOf(t *testing.T, conn string) string {
	t.Helper()
	u, err := url.Parse(conn)
	require.NoError(t, err)
	return u.Port()
}

func startLocal(t *testing.T, opts Options) *Server {
	t.Helper()
	localServer(t) // skips the test where there are no programs
	server, err := newFinder(environment{"PGONCE_TEST_SERVER": "local"}.get).find(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Stop() })
	return server
}

func setting(t *testing.T, server *Server, name string) string {
	t.Helper()
	return query[string](t, server.URL(), "SELECT current_setting($1)", name)
}

func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// requireGone waits for a server to end and for its files to be removed.
func requireGone(t *testing.T, pid int, dataDir string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Dir(dataDir))
		return !alive(pid) && errors.Is(err, os.ErrNotExist)
	}, 20*time.Second, 20*time.Millisecond)
}

// tempDir is one that everybody may write to, as the account that root starts a server as must.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "oncetest")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o1777))
	return dir
}

func requireEmpty(t *testing.T, dir string) {
	t.Helper()
	require.Eventually(t, func() bool {
		entries, err := os.ReadDir(dir)
		return err == nil && len(entries) == 0
	}, 20*time.Second, 20*time.Millisecond, dir)
}

func TestBinDir(t *testing.T) {
	t.Parallel()
	_, err := newLocalWay(t.TempDir()).start(t.Context(), Options{})
	require.ErrorContains(t, err, "PGONCE_PG_BINDIR: ")
	require.ErrorContains(t, err, "has no initdb")
	require.ErrorAs(t, err, new(finalError), "what was asked for is not replaced by the next way")
}

func TestLocalServer(t *testing.T) {
	t.Parallel()
	server := startLocal(t, Options{})
	require.Equal(t, SourceLocal, server.Source())
	require.True(t, alive(server.PID()))
	require.FileExists(t, filepath.Join(server.DataDir(), "PG_VERSION"))
	info, err := os.Stat(server.DataDir())
	require.NoError(t, err)
	require.NotZero(t, info.Sys().(*syscall.Stat_t).Uid, "the server must not be root's")

	require.Equal(t, "postgres", query[string](t, server.URL(), "SELECT current_database()"))
	require.True(t, query[bool](t, server.URL(), "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"))
	for name, want := range map[string]string{
		"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off", "max_connections": "200",
		"max_prepared_transactions": "20", "wal_level": "logical", "listen_addresses": "127.0.0.1", "TimeZone": "UTC",
		"server_encoding": "UTF8", "data_directory": server.DataDir(),
	} {
		require.Equal(t, want, setting(t, server, name), name)
	}

	require.NoError(t, server.Stop())
	require.NoDirExists(t, filepath.Dir(server.DataDir()))
	requireGone(t, server.PID(), server.DataDir())
	require.NoError(t, server.Stop())
}

func TestLocalServerOptions(t *testing.T) {
	t.Parallel()
	server := startLocal(t, Options{Durable: true, Settings: map[string]string{
		"max_connections": "33", "cluster_name": `it's a \ name`,
	}})
	for name, want := range map[string]string{
		"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "max_connections": "33",
		"cluster_name": `it's a \ name`,
	} {
		require.Equal(t, want, setting(t, server, name), name)
	}
}

func TestLocalServerPortTaken(t *testing.T) {
	t.Parallel()
	localServer(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()

	taken := l.Addr().(*net.TCPAddr).Port
	var ports []int
	w := newLocalWay(os.Getenv("PGONCE_PG_BINDIR"))
	w.freePort = func() (int, error) {
		port := taken
		if len(ports) > 0 {
			var err error
			if port, err = pgbin.FreePort(); err != nil {
				return 0, err
			}
		}
		ports = append(ports, port)
		return port, nil
	}
	server, err := w.start(t.Context(), Options{})
	require.NoError(t, err)
	defer func() { _ = server.stop() }()
	require.Equal(t, taken, ports[0])
	require.Greater(t, len(ports), 1)
	require.Equal(t, itoa(ports[len(ports)-1]), portOf(t, server.URL()))
	require.Equal(t, 1, query[int](t, server.URL(), "SELECT 1"))
}

func TestLocalServerDoesNotStart(t *testing.T) {
	localServer(t)
	dir := tempDir(t)
	t.Setenv("TMPDIR", dir)
	_, err := newFinder(environment{"PGONCE_TEST_SERVER": "local"}.get).
		find(t.Context(), Options{Settings: map[string]string{"max_connections": "none"}})
	require.ErrorContains(t, err, "failed postgres; the end of its log:")
	require.ErrorContains(t, err, `invalid value for parameter "max_connections": "none"`)
	requireEmpty(t, dir)
}

func TestLocalServerContextEnds(t *testing.T) {
	localServer(t)
	dir := tempDir(t)
	t.Setenv("TMPDIR", dir)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := newFinder(environment{"PGONCE_TEST_SERVER": "local"}.get).find(ctx, Options{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	requireEmpty(t, dir)
}

// A server ends with its process however that ends, and whatever it was doing.
func TestLocalServerProcessKilled(t *testing.T) {
	t.Parallel()
	localServer(t)
	kill := func(t *testing.T, cmd *exec.Cmd) {
		t.Helper()
		require.NoError(t, cmd.Process.Kill())
		require.ErrorContains(t, cmd.Wait(), "killed")
	}
	t.Run("Running", func(t *testing.T) {
		t.Parallel()
		dir := tempDir(t)
		cmd, report := startChild(t, "hold", "PGONCE_TEST_SERVER=local", "TMPDIR="+dir)
		server := report()
		require.Empty(t, server.Error)
		require.Equal(t, dir, filepath.Dir(filepath.Dir(server.DataDir)))
		require.Equal(t, 1, query[int](t, server.URL, "SELECT 1"))
		kill(t, cmd)
		requireGone(t, server.PID, server.DataDir)
		requireEmpty(t, dir)
	})
	t.Run("Starting", func(t *testing.T) {
		t.Parallel()
		dir := tempDir(t)
		cmd, _ := startChild(t, "hold", "PGONCE_TEST_SERVER=local", "TMPDIR="+dir)
		require.Eventually(t, func() bool {
			logs, err := filepath.Glob(filepath.Join(dir, "pgonce-*", "log")) // initdb is running
			return err == nil && len(logs) == 1
		}, 20*time.Second, time.Millisecond)
		kill(t, cmd)
		requireEmpty(t, dir)
	})
}

func TestLocalServerKept(t *testing.T) {
	t.Parallel()
	localServer(t)
	t.Run("AfterTheProcess", func(t *testing.T) {
		t.Parallel()
		dir := tempDir(t)
		cmd, report := startChild(t, "keep", "PGONCE_TEST_SERVER=local", "TMPDIR="+dir)
		server := report()
		require.NoError(t, cmd.Wait())
		require.Empty(t, server.Error)
		require.Equal(t, 1, query[int](t, server.URL, "SELECT 1"))
		require.NoError(t, syscall.Kill(server.PID, syscall.SIGINT))
		require.Eventually(t, func() bool { return !alive(server.PID) }, 20*time.Second, 20*time.Millisecond)
		require.DirExists(t, server.DataDir)
	})
	t.Run("Stop", func(t *testing.T) {
		t.Parallel()
		server := startLocal(t, Options{Keep: true})
		require.Equal(t, 1, query[int](t, server.URL(), "SELECT 1"))
		require.NoError(t, server.Stop())
		requireGone(t, server.PID(), server.DataDir())
	})
}
