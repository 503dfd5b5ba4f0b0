package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// startTimeout bounds how long a receiver may take to start, and to reach the point at which it is to stop.
const startTimeout = 15 * time.Second

// process is a receiver in a process of its own, so that it can be killed as a machine kills: at once.
type process struct {
	cmd     *exec.Cmd
	stdin   io.Closer
	url     string
	stopped chan string   // points at which it stands
	exited  chan struct{} // closed when it is gone
}

func startProcess(ctx context.Context, settings receiverSettings) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	env, err := json.Marshal(settings)
	if err != nil {
		return nil, err
	}

	var stderr bytes.Buffer // read only when the process is gone
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), receiverEnv+"="+string(env))
	cmd.Stderr = &stderr
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

	p := &process{cmd: cmd, stdin: stdin, stopped: make(chan string, 16), exited: make(chan struct{})}
	listening := make(chan string, 1)
	go func() {
		defer close(p.exited)
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if address, found := strings.CutPrefix(lines.Text(), lineListening); found {
				listening <- address
			} else if point, found := strings.CutPrefix(lines.Text(), lineStopped); found {
				p.stopped <- point
			}
		}
		_ = cmd.Wait() // killed processes always end in an error
	}()

	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	select {
	case address := <-listening:
		p.url = "http://" + address + "/callbacks/"
		return p, nil
	case <-p.exited:
		return nil, fmt.Errorf("demo: the receiver did not start: %s", strings.TrimSpace(stderr.String()))
	case <-timeout.C:
		p.kill()
		return nil, errors.New("demo: the receiver did not start in time")
	}
}

// waitStopped waits until the receiver stands at the point.
func (p *process) waitStopped(ctx context.Context, point string) error {
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	for {
		select {
		case at := <-p.stopped:
			if at == point {
				return nil
			}
		case <-p.exited:
			return fmt.Errorf("demo: the receiver ended before it came to %s", point)
		case <-timeout.C:
			return fmt.Errorf("demo: the receiver did not come to %s in time", point)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// kill ends the receiver by SIGKILL and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // the error is that it has gone already
	<-p.exited
}

// close ends the receiver in good order.
func (p *process) close() {
	_ = p.stdin.Close()
	select {
	case <-p.exited:
	case <-time.After(time.Second):
		p.kill()
	}
}
