package pgproxy_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/internal/pgproxy"
)

// patience bounds everything that a test waits for.
const patience = 30 * time.Second

// inserts sends n statements at once, each a transaction of its own.
func inserts(t *testing.T, conn *pgconn.HijackedConn, n int) {
	t.Helper()
	for range n {
		conn.Frontend.Send(&pgproto3.Query{String: "insert into t values (1)"})
	}
	require.NoError(t, conn.Frontend.Flush())
}

func (b *testBundle) hijack(t *testing.T) *pgconn.HijackedConn {
	t.Helper()
	conn, err := b.connect(t, pgx.QueryExecModeExec).PgConn().Hijack()
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Conn.Close() })
	return conn
}

// awaitGone returns when the server has noticed that the connection is over.
func (b *testBundle) awaitGone(t *testing.T, pid uint32) {
	t.Helper()
	require.Eventually(t, func() bool { return !b.alive(t, pid) }, patience, 2*time.Millisecond)
}

func (b *testBundle) alive(t *testing.T, pid uint32) (alive bool) {
	t.Helper()
	require.NoError(t, b.direct.QueryRow(t.Context(), "SELECT count(*) = 1 FROM pg_stat_activity WHERE pid = $1", pid).Scan(&alive))
	return alive
}

func (b *testBundle) awaitRows(t *testing.T, want int) {
	t.Helper()
	require.Eventually(t, func() bool { return b.rows(t) == want }, patience, 2*time.Millisecond)
}

// forwarded is how many of a side's messages are ahead of a point.
func forwarded(p pgproxy.Point) int {
	if p.After {
		return p.N
	}
	return p.N - 1
}

func requireReached(t *testing.T, stall *pgproxy.Stall) {
	t.Helper()
	select {
	case <-stall.Reached():
	case <-time.After(patience):
		t.Fatal("nobody came to the point")
	}
}

// Three statements are sent at once; the server runs those ahead of the point and no more.
func TestCutAt_Client(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rows := 0
	for n := 1; n <= 3; n++ {
		for _, after := range []bool{false, true} {
			point := pgproxy.Point{From: pgproxy.Client, N: n, After: after}
			conn, cuts := b.hijack(t), b.proxy.Cuts()
			b.proxy.CutAt(point)
			inserts(t, conn, 3)
			b.awaitGone(t, conn.PID)
			rows += forwarded(point)
			require.Equal(t, rows, b.rows(t), point)
			require.Equal(t, cuts+1, b.proxy.Cuts())
		}
	}
}

// The answer to a query is RowDescription, DataRow, CommandComplete, ReadyForQuery; the client receives those ahead of the point.
func TestCutAt_Server(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for n := 1; n <= 4; n++ {
		for _, after := range []bool{false, true} {
			point := pgproxy.Point{From: pgproxy.Server, N: n, After: after}
			conn := b.hijack(t)
			before := b.proxy.Messages(pgproxy.Server)
			b.proxy.CutAt(point)
			conn.Frontend.Send(&pgproto3.Query{String: "select 1"})
			require.NoError(t, conn.Frontend.Flush())
			received := 0
			for {
				if _, err := conn.Frontend.Receive(); err != nil {
					break
				}
				received++
			}
			require.Equal(t, forwarded(point), received, point)
			require.Equal(t, n, b.proxy.Messages(pgproxy.Server)-before, "messages that the proxy saw")
			b.awaitGone(t, conn.PID)
		}
	}
}

// From the first packet on.
func TestCutAt_Startup(t *testing.T) {
	t.Parallel()
	b := setup(t)
	config := b.through(t)
	for _, point := range []pgproxy.Point{
		{From: pgproxy.Client, N: 1}, {From: pgproxy.Client, N: 1, After: true}, {From: pgproxy.Server, N: 1}, {From: pgproxy.Server, N: 2},
	} {
		cuts := b.proxy.Cuts()
		b.proxy.CutAt(point)
		_, err := pgx.ConnectConfig(t.Context(), config)
		require.Error(t, err, point)
		require.Equal(t, cuts+1, b.proxy.Cuts())
	}
	b.connect(t, pgx.QueryExecModeExec)
}

func TestStallAt_Release(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := b.hijack(t)
	stall := b.proxy.StallAt(pgproxy.Point{From: pgproxy.Client, N: 2})
	inserts(t, conn, 3)
	requireReached(t, stall)
	b.awaitRows(t, 1)
	stall.Release()
	stall.Cut() // too late
	b.awaitRows(t, 3)
	require.Zero(t, b.proxy.Cuts())
}

// An answer that is held back is given in the end; the server has done its work long before.
func TestStallAt_Answer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := b.hijack(t)
	stall := b.proxy.StallAt(pgproxy.Point{From: pgproxy.Server, N: 1})
	inserts(t, conn, 1)
	requireReached(t, stall)
	require.Equal(t, 1, b.rows(t))
	received := make(chan error, 1)
	go func() {
		_, err := conn.Frontend.Receive()
		received <- err
	}()
	select {
	case err := <-received:
		t.Fatal("the answer came through", err)
	default:
	}
	stall.Release()
	require.NoError(t, <-received)
}

// Faults are used up in order, each counting from when it was its turn; what is disarmed does not happen.
func TestCutAt_Order(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.proxy.CutAt(pgproxy.Point{From: pgproxy.Client, N: 2}) // of the first connection: its startup, then a statement
	b.proxy.CutAt(pgproxy.Point{From: pgproxy.Client, N: 3}) // of the second one: its startup, then two statements
	for i := range 2 {
		conn := b.hijack(t)
		inserts(t, conn, 3)
		b.awaitGone(t, conn.PID)
		require.Equal(t, i+1, b.proxy.Cuts())
		require.Equal(t, i, b.rows(t), "the first is cut at its first statement, the second at its second")
	}
	b.proxy.CutAt(pgproxy.Point{From: pgproxy.Client, N: 1})
	b.proxy.Disarm()
	b.connect(t, pgx.QueryExecModeExec)
	require.Equal(t, 2, b.proxy.Cuts())
}

// A stall that is cut loses what it held.
func TestStallAt_Cut(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		b := setup(t)
		conn := b.hijack(t)
		point := pgproxy.Point{From: pgproxy.Client, N: 2, After: after}
		stall := b.proxy.StallAt(point)
		inserts(t, conn, 3)
		requireReached(t, stall)
		b.awaitRows(t, forwarded(point))
		stall.Cut()
		b.awaitGone(t, conn.PID)
		require.Equal(t, forwarded(point), b.rows(t))
	}
}

// The client hangs up while its messages are held: the server does not learn of it, and what was held still arrives.
func TestStallAt_LateArrival(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := b.hijack(t)
	stall := b.proxy.StallAt(pgproxy.Point{From: pgproxy.Client, N: 1})
	inserts(t, conn, 1)
	requireReached(t, stall)
	require.NoError(t, conn.Conn.Close())
	require.True(t, b.alive(t, conn.PID))
	require.Zero(t, b.rows(t))
	stall.Release()
	b.awaitRows(t, 1)
	b.awaitGone(t, conn.PID)
}
