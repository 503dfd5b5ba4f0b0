package main

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/oncetest"
)

// fresh claims a key, and returns the flags that end the claim.
func (c client) fresh(args ...string) []string {
	c.t.Helper()
	claim := c.json(append([]string{"claim"}, args...)...)
	require.Equal(c.t, "fresh", claim["outcome"])
	require.Equal(c.t, 1.0, claim["attempt"])
	return []string{"--claim-id", claim["claim_id"].(string), "--attempt", "1"}
}

func TestClaimAndComplete(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.createScope("pay")
	end := c.fresh("pay", "a", "--fingerprint-hex", "cafe")

	claim := c.json("claim", "pay", "a", "--fingerprint-hex", "cafe")
	require.Equal(t, "in_progress", claim["outcome"])
	require.NotNil(t, claim["retry_after_seconds"])
	require.Nil(t, claim["claim_id"])
	require.Equal(t, "in_progress", c.json("lookup", "pay", "a")["state"])

	stdout, stderr, status := c.run(`{"paid": true}`, append([]string{"complete", "pay", "a", "--result", "-",
		"--content-type", "application/json", "--meta", `{"status": 200}`, "--output", "json"}, end...)...)
	require.Equal(t, exitOK, status, stderr)
	require.Equal(t, map[string]any{"scope": "pay", "subject": "", "key": "a", "state": "done"}, object(t, stdout))

	claim = c.json("claim", "pay", "a", "--fingerprint-hex", "cafe")
	for member, want := range map[string]any{
		"outcome": "replay", "attempt": 1.0, "result": `{"paid": true}`, "result_base64": nil, "content_type": "application/json",
		"meta": map[string]any{"status": 200.0}, "omitted_bytes": nil, "retry_after_seconds": nil,
	} {
		require.Equal(t, want, claim[member], member)
	}
	require.Regexp(t, `^\d{4}-\d\d-\d\dT[\d:.]+Z$`, claim["finished_at"])
	require.Equal(t, "mismatch", c.json("claim", "pay", "a", "--fingerprint-hex", "BEEF")["outcome"])
	require.Contains(t, c.ok("claim", "pay", "a"), "outcome       replay\n")

	lookup := c.json("lookup", "pay", "a")
	require.Equal(t, "done", lookup["state"])
	require.Equal(t, "cafe", lookup["fingerprint_hex"])
	require.Equal(t, `{"paid": true}`, lookup["result"])
	require.Contains(t, c.ok("lookup", "pay", "a"), "content_type  application/json\n")

	require.Contains(t, c.fails(append([]string{"complete", "pay", "a"}, end...)...), "ON007")
}

func TestCompleteWithResults(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.createScope("pay", "--max-result-bytes", "1024")
	for key, w := range map[string]struct {
		stdin        string
		flags        []string
		text, base64 any
		omitted      any
	}{
		"none":   {"not read", nil, nil, nil, nil},
		"empty":  {"", []string{"--result", ""}, "", nil, nil},
		"text":   {"", []string{"--result", "zwölf <&>"}, "zwölf <&>", nil, nil},
		"stdin":  {"from stdin\n", []string{"--result", "-"}, "from stdin\n", nil, nil},
		"binary": {"\xff\x00", []string{"--result", "-"}, nil, "/wA=", nil},
		"large":  {strings.Repeat("x", 1025), []string{"--result", "-"}, nil, nil, 1025.0},
	} {
		_, stderr, status := c.run(w.stdin, append(append([]string{"complete", "pay", key}, w.flags...), c.fresh("pay", key)...)...)
		require.Equal(t, exitOK, status, stderr)
		claim := c.json("claim", "pay", key)
		require.Equal(t, "replay", claim["outcome"], key)
		require.Equal(t, w.text, claim["result"], key)
		require.Equal(t, w.base64, claim["result_base64"], key)
		require.Equal(t, w.omitted, claim["omitted_bytes"], key)
	}
}

func TestFail(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.createScope("pay")
	require.Equal(t, "failed\n", c.ok(append([]string{"fail", "pay", "a", "--result", "declined"}, c.fresh("pay", "a")...)...))
	claim := c.json("claim", "pay", "a")
	require.Equal(t, "failed", claim["outcome"])
	require.Equal(t, "declined", claim["result"])
}

func TestRelease(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.createScope("pay")
	require.Equal(t, "released\n", c.ok(append([]string{"release", "pay", "a"}, c.fresh("pay", "a")...)...))
	require.Equal(t, "unknown", c.json("lookup", "pay", "a")["state"])
	require.Equal(t, "state  unknown\n", c.ok("lookup", "pay", "a"))
	c.fresh("pay", "a")
}

func TestSubject(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.createScope("orders", "--subject-required")
	require.Contains(t, c.fails("claim", "orders", "a"), "ON003")
	end := append(c.fresh("orders", "a", "--subject", "x"), "--subject", "x")
	c.fresh("orders", "a", "--subject", "y")
	require.Equal(t, "x", c.json(append([]string{"complete", "orders", "a"}, end...)...)["subject"])
	require.Equal(t, "done", c.json("lookup", "orders", "a", "--subject", "x")["state"])
	require.Equal(t, "in_progress", c.json("lookup", "orders", "a", "--subject", "y")["state"])
}

func TestClaimHeldByATransaction(t *testing.T) {
	t.Parallel()
	db := oncetest.Postgres(t)
	c := client{t, db.URL}
	c.createScope("pay")
	tx, err := db.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), "SELECT FROM once.claim('pay', 'a')")
	require.NoError(t, err)

	require.Equal(t, "in_progress", c.json("claim", "pay", "a", "--strict")["outcome"])
	require.Equal(t, "in_progress", c.json("claim", "pay", "a", "--wait", "20 milliseconds")["outcome"])
	require.NoError(t, tx.Rollback(t.Context()))
	c.fresh("pay", "a", "--strict")
}
