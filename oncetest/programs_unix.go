//go:build unix

package oncetest

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/pgonce/pgonce/internal/pgbin"
)

//go:embed keeper.sh
var keeperScript string

const (
	// portAttempts bounds how often another port is tried when somebody else took the free one first.
	portAttempts = 10

	// logTail is how much of the server's log an error shows, in bytes.
	logTail = 2000

	// maxSocketDir is the longest folder for a Unix socket, whose whole path must fit in 104 bytes on some systems.
	maxSocketDir = 80
)

// startPrograms makes a cluster and starts a server from the programs in binDir.
func startPrograms(ctx context.Context, binDir string, opts Options, freePort func() (int, error)) (*Server, error) {
	account, err := pgbin.Account()
	if err != nil {
		return nil, err
	}
	base, err := makeBase(account, opts)
	if err != nil {
		return nil, err
	}
	k, err := startKeeper(binDir, base, account)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(base))
	}

	pid, port, err := k.startServer(ctx, freePort)
	if err != nil {
		if ctx.Err() != nil {
			go func() { _ = k.stop() }() // initdb is not waited for
			return nil, err
		}
		return nil, errors.Join(err, k.stop())
	}
	server := &Server{
		url:     fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port),
		pid:     pid,
		dataDir: filepath.Join(base, "data"),
		stop:    k.stop,
	}
	if opts.Keep {
		if err := k.leave(); err != nil {
			return nil, errors.Join(err, k.stop())
		}
		server.stop = func() error { return stopKept(binDir, base, account) }
	}
	return server, nil
}

// makeBase makes the folder of one server, which belongs to its account and to nobody else.
func makeBase(account *syscall.Credential, opts Options) (base string, err error) {
	base, err = os.MkdirTemp("", "pgonce-")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(base))
		}
	}()
	settings := map[string]string{"listen_addresses": "127.0.0.1", "unix_socket_directories": base}
	if len(base) > maxSocketDir {
		settings["unix_socket_directories"] = ""
	}
	text := configFile(opts.settings()) + configFile(settings)
	if err := os.WriteFile(filepath.Join(base, "settings.conf"), []byte(text), 0o644); err != nil {
		return "", err
	}
	if account != nil {
		if err := os.Chown(base, int(account.Uid), int(account.Gid)); err != nil {
			return "", err
		}
	}
	return base, nil
}

// keeper is the shell that runs the server: see keeper.sh.
type keeper struct {
	base    string
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	answers *bufio.Scanner
	wait    func() error
}

// keepers holds every running keeper: were one collected as garbage, its stdin would be closed and its server end.
var keepers sync.Map

func startKeeper(binDir, base string, account *syscall.Credential) (*keeper, error) {
	cmd := pgbin.Command(account, "/", "sh", "-c", keeperScript, "pgonce-keeper", binDir, base)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	k := &keeper{base: base, cmd: cmd, stdin: stdin, answers: bufio.NewScanner(stdout), wait: sync.OnceValue(cmd.Wait)}
	keepers.Store(k, nil)
	return k, nil
}

// startServer tries ports until one is free.
func (k *keeper) startServer(ctx context.Context, freePort func() (int, error)) (pid, port int, err error) {
	for range portAttempts {
		if port, err = freePort(); err != nil {
			return 0, 0, err
		}
		answer, err := k.ask(ctx, strconv.Itoa(port))
		if err != nil {
			return 0, 0, err
		}
		if text, ok := strings.CutPrefix(answer, "ready "); ok {
			pid, err = strconv.Atoi(text)
			return pid, port, err
		}
		log := k.log()
		if !strings.Contains(log, "could not create any TCP/IP sockets") {
			return 0, 0, fmt.Errorf("%s; the end of its log:\n%s", answer, log)
		}
	}
	return 0, 0, fmt.Errorf("all of %d ports were taken by others", portAttempts)
}

// ask sends a line and waits for the answer, or for the end of ctx.
func (k *keeper) ask(ctx context.Context, line string) (string, error) {
	type reply struct {
		text string
		err  error
	}
	replies := make(chan reply, 1)
	go func() {
		if _, err := io.WriteString(k.stdin, line+"\n"); err != nil {
			replies <- reply{err: err}
			return
		}
		if !k.answers.Scan() {
			replies <- reply{err: errors.New("the shell that starts the server has ended")}
			return
		}
		replies <- reply{text: k.answers.Text()}
	}()
	select {
	case r := <-replies:
		return r.text, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// log returns the end of the server's log.
func (k *keeper) log() string {
	text, err := os.ReadFile(filepath.Join(k.base, "log"))
	if err != nil {
		return err.Error()
	}
	if len(text) > logTail {
		text = text[len(text)-logTail:]
		if _, rest, ok := strings.Cut(string(text), "\n"); ok {
			return rest
		}
	}
	return string(text)
}

// stop ends the server and removes its folder.
func (k *keeper) stop() error {
	defer keepers.Delete(k)
	_ = k.stdin.Close()
	err := k.wait()
	// The account may lack the right to remove the folder itself.
	return errors.Join(err, os.RemoveAll(k.base))
}

// leave ends the keeper but not the server.
func (k *keeper) leave() error {
	if _, err := io.WriteString(k.stdin, "keep\n"); err != nil {
		return err
	}
	defer keepers.Delete(k)
	defer func() { _ = k.stdin.Close() }()
	return k.wait()
}

// stopKept ends a server whose keeper has left.
func stopKept(binDir, base string, account *syscall.Credential) error {
	data := filepath.Join(base, "data")
	cmd := pgbin.Command(account, "/", filepath.Join(binDir, "pg_ctl"), "stop", "--pgdata="+data, "--wait", "--silent",
		"--mode=immediate")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_ctl stop: %w: %s", err, out)
	}
	return os.RemoveAll(base)
}
