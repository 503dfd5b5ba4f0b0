//go:build linux

package cluster

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pgonce/pgonce/internal/pgbin"
)

//go:embed keeper.sh
var keeperScript string

const (
	// portAttempts bounds how often another port is tried when somebody else took the free one first.
	portAttempts = 10

	// deathTimeout bounds how long killed processes take to disappear.
	deathTimeout = 30 * time.Second

	// logTail is how much of the server's log an error shows, in bytes.
	logTail = 3000
)

// settings are quick, and those that standbys, switchovers and prepared transactions need.
const settings = `
listen_addresses = '127.0.0.1'
fsync = off
full_page_writes = off
max_connections = 100
max_prepared_transactions = 20
max_wal_size = 128MB
wal_level = logical
max_wal_senders = 10
max_replication_slots = 10
hot_standby = on
restart_after_crash = on
timezone = UTC
`

// Cluster is a data directory, and the server over it while one runs. Its methods are for one goroutine at a time.
type Cluster struct {
	binDir  string
	base    string // removed with the cluster
	data    string
	port    int
	account *syscall.Credential
	keeper  io.Closer
	waited  func() error
}

// New makes a cluster by initdb, without starting a server. binDir holds the server programs. The superuser is postgres,
// trusted without a password from this machine.
func New(binDir string) (*Cluster, error) {
	c, err := newBase(binDir, "")
	if err != nil {
		return nil, err
	}
	if err := c.initialise(); err != nil {
		return nil, errors.Join(err, c.Remove())
	}
	return c, nil
}

func (c *Cluster) initialise() error {
	_, err := c.Program("initdb", "--pgdata="+c.data, "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C",
		"--wal-segsize=1", "--no-sync")
	if err != nil {
		return err
	}
	return c.Configure(settings + "unix_socket_directories = ''\n")
}

// Copy makes a cluster with a copy of the data directory, whose server must not run. dir is where it lies; empty: the
// folder of temporary files.
func (c *Cluster) Copy(dir string) (*Cluster, error) {
	n, err := newBase(c.binDir, dir)
	if err != nil {
		return nil, err
	}
	if _, err := n.run("cp", "-R", "-p", c.data, n.data); err != nil {
		return nil, errors.Join(err, n.Remove())
	}
	return n, nil
}

// Standby makes a streaming standby of the running server, under the name that synchronous_standby_names can list, without
// starting it.
func (c *Cluster) Standby(name string) (*Cluster, error) {
	n, err := newBase(c.binDir, "")
	if err != nil {
		return nil, err
	}
	_, err = n.Program("pg_basebackup", "--pgdata="+n.data, "--checkpoint=fast", "--no-sync", "--write-recovery-conf",
		"--wal-method=stream", fmt.Sprintf("--dbname=host=127.0.0.1 port=%d user=postgres application_name=%s", c.port, name))
	if err != nil {
		return nil, errors.Join(err, n.Remove())
	}
	return n, nil
}

// newBase makes the folder of a cluster, below dir, and its keeper.
func newBase(binDir, dir string) (*Cluster, error) {
	account, err := pgbin.Account()
	if err != nil {
		return nil, err
	}
	base, err := os.MkdirTemp(dir, "pgonce-cluster-")
	if err != nil {
		return nil, err
	}
	if account != nil {
		if err := os.Chown(base, int(account.Uid), int(account.Gid)); err != nil {
			return nil, errors.Join(err, os.RemoveAll(base))
		}
	}
	c := &Cluster{binDir: binDir, base: base, data: filepath.Join(base, "data"), account: account}
	cmd := pgbin.Command(c.account, c.base, "sh", "-c", keeperScript, "pgonce-keeper", binDir, base, c.data)
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(base))
	}
	c.keeper, c.waited = stdin, cmd.Wait
	return c, nil
}

func (c *Cluster) run(name string, args ...string) ([]byte, error) {
	cmd := pgbin.Command(c.account, c.base, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(name), err, stderr.String())
	}
	return stdout.Bytes(), nil
}

// Program runs one of the server programs as the cluster's account, in the cluster's folder, and returns its standard output.
func (c *Cluster) Program(name string, args ...string) ([]byte, error) {
	return c.run(filepath.Join(c.binDir, name), args...)
}

// BinDir is the folder of the server programs.
func (c *Cluster) BinDir() string { return c.binDir }

// Data is the data directory.
func (c *Cluster) Data() string { return c.data }

// Port is where the server listens. It stays the same over restarts.
func (c *Cluster) Port() int { return c.port }

// URL is the connection string of a database, as superuser.
func (c *Cluster) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable&connect_timeout=10", c.port, database)
}

// Configure appends settings, which win over those before. They count from the next start, or reload.
func (c *Cluster) Configure(text string) error {
	f, err := os.OpenFile(filepath.Join(c.data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("\n" + text + "\n")
	return errors.Join(err, f.Close())
}

// Start starts a server and returns when it accepts connections, after recovery where a crash calls for it.
func (c *Cluster) Start() error {
	for range portAttempts {
		port := c.port
		if port == 0 {
			var err error
			if port, err = pgbin.FreePort(); err != nil {
				return err
			}
		}
		err := c.startOn(port)
		if err == nil {
			c.port = port
			return nil
		}
		log := c.Log()
		if c.port != 0 || !strings.Contains(log, "could not create any TCP/IP sockets") {
			return fmt.Errorf("%w; the end of its log:\n%s", err, log)
		}
	}
	return fmt.Errorf("all of %d ports were taken by others", portAttempts)
}

func (c *Cluster) startOn(port int) error {
	// The server keeps the descriptors that pg_ctl has, so that output into a pipe would never end.
	cmd := pgbin.Command(c.account, c.base, filepath.Join(c.binDir, "pg_ctl"), "start", "--pgdata="+c.data, "--wait", "--silent", "--timeout=120",
		"--log="+filepath.Join(c.base, "log"), fmt.Sprintf("--options=-p %d", port))
	return cmd.Run()
}

// Stop shuts the server down in order, ending sessions.
func (c *Cluster) Stop() error {
	_, err := c.Program("pg_ctl", "stop", "--pgdata="+c.data, "--wait", "--silent", "--mode=fast")
	return err
}

// Promote makes a standby a primary, and returns when it accepts writes.
func (c *Cluster) Promote() error {
	_, err := c.Program("pg_ctl", "promote", "--pgdata="+c.data, "--wait", "--silent")
	return err
}

// Kill kills the postmaster and its children with SIGKILL, and returns when all are gone. The cluster can be started again.
func (c *Cluster) Kill() error {
	pid, err := c.postmaster()
	if err != nil {
		return err
	}
	// Stopped first, so that no child comes into being between the look and the kill.
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	children, err := childrenOf(pid)
	if err != nil {
		return errors.Join(err, syscall.Kill(pid, syscall.SIGCONT))
	}
	all := append([]int{pid}, children...)
	for _, p := range all {
		_ = syscall.Kill(p, syscall.SIGKILL) // a child may have ended by itself
	}
	deadline := time.Now().Add(deathTimeout)
	for slices.ContainsFunc(all, alive) {
		if time.Now().After(deadline) {
			return fmt.Errorf("a killed process of %v is still there", all)
		}
		time.Sleep(time.Millisecond)
	}
	// Where nobody reaps orphans the dead postmaster keeps its id, and the next would take it for a running one.
	return os.Remove(filepath.Join(c.data, "postmaster.pid"))
}

// KillProcess kills one process of the server with SIGKILL, a backend as pg_stat_activity names it. The server then ends
// all sessions and recovers. It reports whether the process was there, and was the server's.
func (c *Cluster) KillProcess(pid int) (bool, error) {
	postmaster, err := c.postmaster()
	if err != nil {
		return false, err
	}
	if parentOf(pid) != postmaster {
		return false, nil
	}
	return syscall.Kill(pid, syscall.SIGKILL) == nil, nil
}

// Running reports whether the server runs. It may have stopped by itself.
func (c *Cluster) Running() bool {
	pid, err := c.postmaster()
	return err == nil && alive(pid)
}

func (c *Cluster) postmaster() (int, error) {
	text, err := os.ReadFile(filepath.Join(c.data, "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strconv.Atoi(line)
}

// Log is the end of the server's log.
func (c *Cluster) Log() string {
	text, err := os.ReadFile(filepath.Join(c.base, "log"))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-logTail):])
}

// Remove stops the server, if one runs, and removes everything.
func (c *Cluster) Remove() error {
	return errors.Join(c.keeper.Close(), c.waited(), os.RemoveAll(c.base))
}

// status is the state and the parent of a process; it is dead if there is no such process, or nobody has reaped it yet.
func status(pid int) (state string, parent int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0
	}
	// The name before may hold anything, parentheses too.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 2 {
		return "", 0
	}
	parent, _ = strconv.Atoi(fields[1])
	return fields[0], parent
}

func alive(pid int) bool {
	state, _ := status(pid)
	return state != "" && state != "Z" && state != "X"
}

func parentOf(pid int) int {
	_, parent := status(pid)
	return parent
}

func childrenOf(pid int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var children []int
	for _, e := range entries {
		if child, err := strconv.Atoi(e.Name()); err == nil && parentOf(child) == pid {
			children = append(children, child)
		}
	}
	return children, nil
}
