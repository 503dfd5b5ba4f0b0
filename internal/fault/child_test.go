//go:build linux

package fault

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/archive"
	"github.com/pgonce/pgonce/txn"
)

// What a child process of the test binary reads: what it does instead of testing, on which database, and where it kills
// itself, or, as a maintainer, the time to act as if it had come.
const (
	childVariable = "PGONCE_FAULT_CHILD"
	urlVariable   = "PGONCE_FAULT_URL"
	pointVariable = "PGONCE_FAULT_POINT"
)

var children = map[string]func(){"Run": childRun, "plain SQL": childPlain, "maintain": childMaintain}

// startChild starts a child process.
func startChild(t testing.TB, name, url, point string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), childVariable+"="+name, urlVariable+"="+url, pointVariable+"="+point)
	cmd.Stderr = new(bytes.Buffer)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // a killed test binary leaves no child behind
	require.NoError(t, cmd.Start())
	return cmd
}

// waitKilled says that a child was ended by SIGKILL.
func waitKilled(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	_ = cmd.Wait()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, status.Signaled() && status.Signal() == syscall.SIGKILL, "%v: %s", cmd.ProcessState, cmd.Stderr)
}

// at kills this process if the point is where it is to end.
func at(point string) {
	if os.Getenv(pointVariable) != point {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way
}

// childKey is the operation of a client.
func childKey() string { return os.Getenv(childVariable) + " " + os.Getenv(pointVariable) }

// childPool is a pool whose connections see the points around COMMIT, once armed.
func childPool(armed *atomic.Bool) *pgxpool.Pool {
	config, err := pgxpool.ParseConfig(os.Getenv(urlVariable))
	check(err)
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return &commitConn{Conn: conn, armed: armed}, err
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	check(err)
	return pool
}

// commitConn passes the points "before COMMIT" and "COMMIT sent".
type commitConn struct {
	net.Conn
	armed *atomic.Bool
}

func (c *commitConn) Write(p []byte) (int, error) {
	if !c.armed.Load() || !bytes.Contains(bytes.ToLower(p), []byte("commit")) {
		return c.Conn.Write(p)
	}
	at("before COMMIT")
	n, err := c.Conn.Write(p)
	at("COMMIT sent")
	return n, err
}

func (c *commitConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.armed.Load() && bytes.Contains(p[:n], []byte("COMMIT\x00")) {
		at("COMMIT answered")
	}
	return n, err
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func childRun() {
	var armed atomic.Bool
	key := childKey()
	_, err := txn.Run(context.Background(), childPool(&armed), request(key), func(ctx context.Context, tx pgx.Tx) (int64, error) {
		armed.Store(true)
		at("claimed")
		value, err := write(ctx, tx, key)
		at("written")
		return value, err
	})
	check(err)
}

func childPlain() {
	var armed atomic.Bool
	key := childKey()
	ctx := context.Background()
	check(pgx.BeginFunc(ctx, childPool(&armed), func(tx pgx.Tx) error {
		c, err := claim(ctx, tx, key)
		check(err)
		at("claimed")
		value, err := write(ctx, tx, key)
		check(err)
		at("written")
		check(complete(ctx, tx, key, c, value))
		at("completed")
		armed.Store(true)
		return nil
	}))
}

func childMaintain() {
	now, err := time.Parse(time.RFC3339Nano, os.Getenv(pointVariable))
	check(err)
	pool, err := pgxpool.New(context.Background(), os.Getenv(urlVariable))
	check(err)
	archive.Every(context.Background(), pool, time.Millisecond, archive.Options{Now: now}, nil)
}
