package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/internal/demo"
	"github.com/pgonce/pgonce/oncetest"
)

// The demo starts its receivers from the running program, here the test.
func TestMain(m *testing.M) {
	if demo.IsReceiver() {
		os.Exit(demo.ReceiverMain())
	}
	os.Exit(m.Run())
}

// client invokes commands in this process.
type client struct {
	t   *testing.T
	url string
}

func newClient(t *testing.T) client {
	t.Helper()
	return client{t, oncetest.Postgres(t).URL}
}

// run returns what an invocation wrote and its exit status.
func (c client) run(stdin string, args ...string) (stdout, stderr string, status int) {
	c.t.Helper()
	var out, errs bytes.Buffer
	status = run(c.t.Context(), &env{stdin: strings.NewReader(stdin), stdout: &out, stderr: &errs, getenv: c.getenv}, args)
	return out.String(), errs.String(), status
}

// runUntil is run of a command that goes on until it is stopped: here, when it has written this many lines to standard
// output (or standard error).
func (c client) runUntil(outLines, errLines int, args ...string) (stdout, stderr string, status int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	out, errs := countdown{lines: outLines, done: cancel}, countdown{lines: errLines, done: cancel}
	status = run(ctx, &env{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, getenv: c.getenv}, args)
	require.NotErrorIs(c.t, ctx.Err(), context.DeadlineExceeded)
	return out.String(), errs.String(), status
}

func (c client) getenv(name string) string {
	if name == "DATABASE_URL" {
		return c.url
	}
	return ""
}

// countdown is a buffer that calls done once it holds a number of lines.
type countdown struct {
	bytes.Buffer

	lines int
	done  func()
}

func (c *countdown) Write(p []byte) (int, error) {
	n, err := c.Buffer.Write(p)
	if c.lines > 0 && bytes.Count(c.Bytes(), []byte("\n")) >= c.lines {
		c.done()
	}
	return n, err
}

// ok returns what an invocation that succeeds wrote.
func (c client) ok(args ...string) string {
	c.t.Helper()
	stdout, stderr, status := c.run("", args...)
	require.Equal(c.t, exitOK, status, "%q: %s", args, stderr)
	return stdout
}

// json returns the JSON object that an invocation wrote.
func (c client) json(args ...string) map[string]any {
	c.t.Helper()
	return object(c.t, c.ok(append(args, "--output", "json")...))
}

// fails returns what an invocation that fails wrote to standard error.
func (c client) fails(args ...string) string {
	c.t.Helper()
	stdout, stderr, status := c.run("", args...)
	require.Equal(c.t, exitFailure, status, "%q: %s", args, stderr)
	require.Empty(c.t, stdout)
	return stderr
}

// object is the only JSON value of a text, which is one line.
func object(t *testing.T, text string) (value map[string]any) {
	t.Helper()
	require.Equal(t, 1, strings.Count(text, "\n"), "%s", text)
	require.NoError(t, json.Unmarshal([]byte(text), &value), "%s", text)
	return value
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	c := client{t, "postgres://127.0.0.1:1/nowhere"}
	for name, args := range map[string][]string{
		"NoCommand":        {},
		"UnknownCommand":   {"nope"},
		"NoSubcommand":     {"scope"},
		"UnknownOfGroup":   {"scope", "nope"},
		"UnknownFlag":      {"status", "--nope"},
		"Output":           {"status", "--output", "xml"},
		"TooFewArguments":  {"claim", "pay"},
		"TooManyArguments": {"status", "pay"},
		"NotANumber":       {"scope", "create", "pay", "--generations", "many"},
		"WaitAndStrict":    {"claim", "pay", "a", "--wait", "1s", "--strict"},
		"RequiredFlags":    {"complete", "pay", "a"},
		"Fingerprint":      {"claim", "pay", "a", "--fingerprint-hex", "zz"},
		"NoFingerprint":    {"claim", "pay", "a", "--fingerprint-hex", ""},
		"ClaimID":          {"release", "pay", "a", "--claim-id", "1", "--attempt", "1"},
		"Meta":             {"complete", "pay", "a", "--claim-id", "6f1ed002-ab5a-4d09-8a34-3f6b4c2a0b6f", "--attempt", "1", "--meta", "{"},
		"NothingToChange":  {"scope", "alter", "pay"},
	} {
		stdout, stderr, status := c.run("", args...)
		require.Equal(t, exitUsage, status, "%s: %s", name, stderr)
		require.Empty(t, stdout, name)
		require.Contains(t, stderr, "--help.", name)
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		require.NotEmpty(t, cmd.Short, cmd.CommandPath())
		require.NotEmpty(t, cmd.Long, cmd.CommandPath())
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
		if !cmd.HasSubCommands() {
			require.Contains(t, cmd.Example, "  "+cmd.CommandPath(), cmd.CommandPath())
			require.Contains(t, cmd.Long, "JSON: ", cmd.CommandPath())
		}
	}
	visit(newRootCommand(&env{}))

	stdout, stderr, status := client{t, ""}.run("", "scope", "create", "--help")
	require.Equal(t, exitOK, status, stderr)
	require.Contains(t, stdout, "--retry-horizon interval")
}

// Members that a help text names are those that are there.
func TestHelpNamesJSON(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.ok("scope", "create", "pay", "--window", "7 days", "--retry-horizon", "3 days")
	for _, args := range [][]string{
		{"version"}, {"migrate", "up"}, {"migrate", "status"}, {"claim", "pay", "a"}, {"lookup", "pay", "a"}, {"maintain"}, {"status"},
		{"scope", "grant", "pay", "pg_monitor"}, {"scope", "revoke", "pay", "pg_monitor"}, {"scope", "drop", "pay", "--dry-run"},
	} {
		help := c.ok(append(args, "--help")...)
		_, members, found := strings.Cut(help, "JSON: ")
		require.True(t, found, "%q", args)
		for name := range c.json(args...) {
			require.Regexp(t, `\b`+name+`\b`, members, "%q", args)
		}
	}
	for name := range c.json("scope", "create", "mail", "--window", "7 days", "--retry-horizon", "3 days") {
		require.Regexp(t, `\b`+name+`\b`, scopeJSON)
	}
}

func TestServerErrors(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	stderr := c.fails("claim", "nope", "a")
	require.Regexp(t, `^pgonce: unknown scope: 'nope' \(SQLSTATE ON001\)\nHINT: .*once\.scopes\.\n$`, stderr)

	stderr = c.fails("scope", "create", "Pay", "--window", "7 days", "--retry-horizon", "3 days")
	require.Contains(t, stderr, "(SQLSTATE ON005)\nDETAIL: A scope name is")
	require.Contains(t, stderr, "\nHINT: ")

	stderr = c.fails("claim", "nope", "a", "--wait", "soon")
	require.Contains(t, stderr, `invalid input syntax for type interval: "soon"`)

	c.url = "postgres://127.0.0.1:1/nowhere"
	require.Contains(t, c.fails("status"), "failed to connect")
	require.Contains(t, c.fails("status", "--database-url", "postgres://%"), "database URL")
}

func TestDatabaseURLFlagWins(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	url := c.url
	c.url = "postgres://127.0.0.1:1/nowhere"
	c.ok("status", "--database-url", url)
}

func TestBinary(t *testing.T) {
	t.Parallel()
	url := oncetest.Postgres(t).URL
	program := filepath.Join(t.TempDir(), "pgonce")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = append(os.Environ(), "DATABASE_URL="+url)
		return cmd
	}
	status := func(err error) int {
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			return exit.ExitCode()
		}
		require.NoError(t, err)
		return 0
	}

	t.Run("ExitStatus", func(t *testing.T) {
		require.Equal(t, exitOK, status(command("version").Run()))
		require.Equal(t, exitUsage, status(command("nope").Run()))
		require.Equal(t, exitFailure, status(command("lookup", "nope", "a").Run()))
	})

	t.Run("LibpqVariables", func(t *testing.T) {
		cmd := command("status")
		cmd.Env = append(os.Environ(), "DATABASE_URL=", "PGHOST=127.0.0.1", "PGPORT=1", "PGUSER=me", "PGDATABASE=nowhere")
		out, err := cmd.CombinedOutput()
		require.Equal(t, exitFailure, status(err))
		require.Contains(t, string(out), "user=me database=nowhere")
	})

	t.Run("MaintainUntilInterrupted", func(t *testing.T) {
		cmd := command("maintain", "--every", "10ms", "--output", "json")
		stdout, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		timeout := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
		defer timeout.Stop()
		rounds := json.NewDecoder(stdout)
		for range 2 {
			var round maintainOutput
			require.NoError(t, rounds.Decode(&round))
			require.Empty(t, round.Events)
		}
		require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
		for rounds.More() {
			require.NoError(t, rounds.Decode(new(maintainOutput)))
		}
		require.Equal(t, exitOK, status(cmd.Wait()))
	})

	t.Run("Demo", func(t *testing.T) {
		cmd := command("demo", "--output", "json")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		require.Equal(t, exitOK, status(err), stderr.String())
		report := object(t, string(out))
		require.Equal(t, true, report["ok"])
		require.NotZero(t, report["pgonce_grants"])
		require.NotEmpty(t, stderr.String(), "progress")
	})
}
