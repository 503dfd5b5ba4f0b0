// Package sqltest holds the contracts of the SQL: pgTAP files for what one session can see, and Go tests for what takes
// several sessions or transactions.
package sqltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/internal/pgbouncer"
	"github.com/pgonce/pgonce/oncetest"
)

// querier is a pool, a connection or a transaction.
type querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// patience bounds everything that a test waits for. It is far more than is ever needed, so that a busy machine fails nothing.
const patience = 30 * time.Second

// window and horizon are those of the scopes of these tests; an hour is a generation.
const (
	window  = 2 * time.Hour
	horizon = time.Hour
	slice   = time.Hour
)

// base is a database with the scope s: two generations a window, which is two hours, and archive discard.
type base struct {
	t testing.TB
	*oncetest.DB
	direct string // the URL without PgBouncer, if there is one
}

// pooledConns is how many server connections a test has through PgBouncer: no fewer than the transactions that it has open.
const pooledConns = 20

// empty is a database without scopes.
func empty(t testing.TB) *base {
	t.Helper()
	b := &base{t, oncetest.Postgres(t), ""}
	b.direct = b.URL
	if pgbouncer.Wanted() {
		through := *b.DB
		through.URL = pgbouncer.Start(t, b.URL, pooledConns)
		var err error
		through.Pool, err = pgxpool.New(t.Context(), through.URL)
		require.NoError(t, err)
		t.Cleanup(through.Pool.Close)
		b.DB = &through
	}
	return b
}

func newBase(t testing.TB) *base {
	t.Helper()
	b := empty(t)
	b.exec("SELECT once.create_scope('s', interval '2 hours', interval '1 hour', p_archive => 'discard')")
	return b
}

// exec runs sql on a connection of the pool.
func (b *base) exec(sql string, args ...any) {
	b.t.Helper()
	exec(b.t, b.Pool, sql, args...)
}

func exec(t testing.TB, q querier, sql string, args ...any) {
	t.Helper()
	_, err := q.Exec(t.Context(), sql, args...)
	require.NoError(t, err, sql)
}

// get returns the one value that sql gives.
func get[T any](t testing.TB, q querier, sql string, args ...any) T {
	t.Helper()
	var v T
	require.NoError(t, q.QueryRow(t.Context(), sql, args...).Scan(&v), sql)
	return v
}

// session is a connection of its own, closed when the test ends.
func (b *base) session() *pgx.Conn {
	b.t.Helper()
	return connect(b.t, b.URL)
}

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	config.RuntimeParams["statement_timeout"] = "30s" // a test that waits for itself fails
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// begin starts a transaction on a session of its own, which is rolled back when the test ends.
func (b *base) begin(isolation pgx.TxIsoLevel) pgx.Tx {
	b.t.Helper()
	tx, err := b.session().BeginTx(b.t.Context(), pgx.TxOptions{IsoLevel: isolation})
	require.NoError(b.t, err)
	return tx
}

// snapshot starts a transaction above READ COMMITTED whose snapshot is taken now.
func (b *base) snapshot(isolation pgx.TxIsoLevel) pgx.Tx {
	b.t.Helper()
	tx := b.begin(isolation)
	exec(b.t, tx, "SELECT count(*) FROM pg_catalog.pg_class")
	return tx
}

func commit(t testing.TB, tx pgx.Tx) {
	t.Helper()
	require.NoError(t, tx.Commit(t.Context()))
}

func rollback(t testing.TB, tx pgx.Tx) {
	t.Helper()
	require.NoError(t, tx.Rollback(t.Context()))
}

// claimed is an answer of once.claim.
type claimed struct {
	Outcome string
	Attempt int
	ID      string
	Result  []byte
}

const claimSQL = "SELECT outcome::text, attempt, coalesce(claim_id::text, ''), result FROM once.claim"

// claim claims a key of the scope s. args is the rest of the argument list, in SQL.
func claim(t testing.TB, q querier, key, args string) claimed {
	t.Helper()
	c, err := tryClaim(t.Context(), q, key, args)
	require.NoError(t, err)
	return c
}

func tryClaim(ctx context.Context, q querier, key, args string) (claimed, error) {
	var c claimed
	err := q.QueryRow(ctx, claimSQL+"('s', $1"+args+")", key).Scan(&c.Outcome, &c.Attempt, &c.ID, &c.Result)
	return c, err
}

// complete completes a claim with the result "done".
func complete(t testing.TB, q querier, key string, c claimed) {
	t.Helper()
	exec(t, q, "SELECT once.complete('s', $1, $2, $3, 'done')", key, c.ID, c.Attempt)
}

// finish claims and completes a key, which must be fresh.
func finish(t testing.TB, q querier, key string) {
	t.Helper()
	c := claim(t, q, key, "")
	require.Equal(t, "fresh", c.Outcome, key)
	complete(t, q, key, c)
}

func requireOutcome(t testing.TB, q querier, outcome, key string) {
	t.Helper()
	require.Equal(t, outcome, claim(t, q, key, ", p_wait => '0'").Outcome, key)
}

// requireCode wants a PostgreSQL error with the code, and a HINT if it is one of ours.
func requireCode(t testing.TB, code string, err error) *pgconn.PgError {
	t.Helper()
	var pgErr *pgconn.PgError
	require.ErrorAs(t, err, &pgErr)
	require.Equal(t, code, pgErr.Code, pgErr.Message)
	if code[:2] == "ON" {
		require.NotEmpty(t, pgErr.Hint)
	}
	return pgErr
}

// event is a line of maintain's report.
type event struct {
	Scope, Step, Result, Detail string
	Generation                  *int
}

func (e event) String() string {
	if e.Generation == nil {
		return fmt.Sprintf("%s: %s", e.Step, e.Result)
	}
	return fmt.Sprintf("%s %d: %s", e.Step, *e.Generation, e.Result)
}

func events(t testing.TB, report []byte) []string {
	t.Helper()
	var list []event
	require.NoError(t, json.Unmarshal(report, &list))
	var names []string
	for _, e := range list {
		names = append(names, e.String())
	}
	return names
}

// maintain runs a whole round over s as if it were later by that much, without waiting for others, and returns what it
// reported, as "step generation: result".
func (b *base) maintain(later time.Duration) []string {
	b.t.Helper()
	return b.maintainWait(b.Pool, later, "0")
}

func (b *base) maintainWait(q querier, later time.Duration, wait string) []string {
	b.t.Helper()
	report := get[[]byte](b.t, q, "CALL once.maintain('s', $1::text::interval, pg_catalog.clock_timestamp() + $2::text::interval, NULL)",
		wait, later.String())
	return events(b.t, report)
}

// settleDown runs maintenance until no session of the test holds it back.
func (b *base) settleDown(later time.Duration) []string {
	b.t.Helper()
	return b.maintainWait(b.Pool, later, "20 seconds")
}

// step takes one step of maintenance in the transaction of q.
func step(t testing.TB, q querier, later time.Duration) []string {
	t.Helper()
	return events(t, get[[]byte](t, q,
		"SELECT coalesce(json_agg(e), '[]') FROM once._maintain_step('s', pg_catalog.clock_timestamp() + $1::text::interval) AS e", later.String()))
}

// rotate seals the open generation, which must hold a row, and returns when the new one is open.
func (b *base) rotate(later time.Duration) {
	b.t.Helper()
	before := b.epoch()
	b.maintain(later)
	require.Greater(b.t, b.epoch(), before)
}

func (b *base) epoch() int64 {
	b.t.Helper()
	return get[int64](b.t, b.Pool, "SELECT once.current_epoch('s')")
}

// state of a generation, as the view has it.
func (b *base) state(generation int) string {
	b.t.Helper()
	return get[string](b.t, b.Pool, "SELECT state FROM once.generations WHERE scope = 's' AND generation = $1", generation)
}

func (b *base) admin() *pgx.Conn {
	b.t.Helper()
	return connect(b.t, b.AdminURL)
}

func pid(t testing.TB, q querier) int {
	t.Helper()
	return get[int](t, q, "SELECT pg_catalog.pg_backend_pid()")
}

// awaitBlocked returns when the session waits for a lock.
func (b *base) awaitBlocked(pid int) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		return get[bool](b.t, b.Pool, "SELECT EXISTS (SELECT FROM pg_catalog.pg_locks WHERE pid = $1 AND NOT granted)", pid)
	}, patience, 5*time.Millisecond)
}

// isCode reports whether err is a PostgreSQL error with the code.
func isCode(err error, code string) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == code
}

var _ querier = (*pgxpool.Pool)(nil)
