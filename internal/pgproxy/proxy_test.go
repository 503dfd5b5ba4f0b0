package pgproxy_test

import (
	"context"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/internal/pgproxy"
	"github.com/pgonce/pgonce/oncetest"
)

type testBundle struct {
	proxy  *pgproxy.Proxy
	direct *pgx.Conn // to the server, past the proxy
	config *pgx.ConnConfig
}

// setup gives a proxy in front of a database of the test's own, which holds an empty table t (n int).
func setup(t *testing.T) *testBundle {
	t.Helper()
	ctx := t.Context()

	config, err := pgx.ParseConfig(oncetest.Postgres(t).URL)
	require.NoError(t, err)
	direct, err := pgx.ConnectConfig(ctx, config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, direct.Close(context.Background())) })
	_, err = direct.Exec(ctx, "CREATE TABLE t (n int)")
	require.NoError(t, err)

	target := net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))
	if _, path := pgconn.NetworkAddress(config.Host, config.Port); os.IsPathSeparator(path[0]) {
		target = path
	}
	proxy, err := pgproxy.Start(target)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	return &testBundle{proxy: proxy, direct: direct, config: config}
}

// through returns the configuration of a connection through the proxy.
func (b *testBundle) through(t *testing.T) *pgx.ConnConfig {
	t.Helper()
	config := b.config.Copy()
	host, port, err := net.SplitHostPort(b.proxy.Addr())
	require.NoError(t, err)
	number, err := strconv.ParseUint(port, 10, 16)
	require.NoError(t, err)
	config.Host, config.Port = host, uint16(number)
	config.Fallbacks, config.TLSConfig = nil, nil
	return config
}

// connect opens a connection through the proxy.
func (b *testBundle) connect(t *testing.T, mode pgx.QueryExecMode) *pgx.Conn {
	t.Helper()
	config := b.through(t)
	config.DefaultQueryExecMode = mode
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (b *testBundle) rows(t *testing.T) (n int) {
	t.Helper()
	require.NoError(t, b.direct.QueryRow(t.Context(), "SELECT count(*) FROM t").Scan(&n))
	return n
}

var cuts = map[string]struct {
	when pgproxy.When
	rows int // what the transaction left behind
}{
	"BeforeServer": {pgproxy.BeforeServer, 0},
	"AfterServer":  {pgproxy.AfterServer, 1},
}

func TestCutCommit(t *testing.T) {
	t.Parallel()

	modes := map[string]pgx.QueryExecMode{
		"CacheStatement": pgx.QueryExecModeCacheStatement,
		"DescribeExec":   pgx.QueryExecModeDescribeExec,
		"Exec":           pgx.QueryExecModeExec,
		"SimpleProtocol": pgx.QueryExecModeSimpleProtocol,
	}
	for cutName, cut := range cuts {
		for modeName, mode := range modes {
			t.Run(cutName+"/"+modeName, func(t *testing.T) {
				t.Parallel()
				ctx := t.Context()
				b := setup(t)
				conn := b.connect(t, mode)

				b.proxy.CutCommit(cut.when)
				tx, err := conn.Begin(ctx)
				require.NoError(t, err)
				_, err = tx.Exec(ctx, "INSERT INTO t VALUES ($1)", 1)
				require.NoError(t, err)
				require.Zero(t, b.proxy.Cuts())

				require.Error(t, tx.Commit(ctx))
				require.True(t, conn.IsClosed())
				require.Equal(t, 1, b.proxy.Cuts())
				require.Equal(t, cut.rows, b.rows(t))
			})
		}
	}
}

// The COMMIT shares a pipeline with other statements, as prepared statements or as unnamed ones.
func TestCutCommit_Pipeline(t *testing.T) {
	t.Parallel()

	for cutName, cut := range cuts {
		for _, prepared := range []bool{true, false} {
			t.Run(cutName+"/Prepared="+strconv.FormatBool(prepared), func(t *testing.T) {
				t.Parallel()
				ctx := t.Context()
				b := setup(t)
				conn := b.connect(t, pgx.QueryExecModeExec).PgConn()

				// Preparing a COMMIT runs nothing, so it is not cut.
				b.proxy.CutCommit(cut.when)
				for name, sql := range map[string]string{"b": "begin", "i": "INSERT INTO t VALUES (1)", "c": "commit"} {
					_, err := conn.Prepare(ctx, name, sql, nil)
					require.NoError(t, err)
				}
				require.Zero(t, b.proxy.Cuts())

				pipeline := conn.StartPipeline(ctx)
				if prepared {
					pipeline.SendQueryPrepared("b", nil, nil, nil)
					pipeline.SendQueryPrepared("i", nil, nil, nil)
					pipeline.SendQueryPrepared("c", nil, nil, nil)
				} else {
					pipeline.SendQueryParams("begin", nil, nil, nil, nil)
					pipeline.SendQueryParams("INSERT INTO t VALUES (1)", nil, nil, nil, nil)
					pipeline.SendQueryParams("commit", nil, nil, nil, nil)
				}
				require.NoError(t, pipeline.Sync())

				var tags []string
				for {
					results, err := pipeline.GetResults()
					reader, ok := results.(*pgconn.ResultReader)
					if err != nil || !ok {
						require.Error(t, err, "the pipeline must not come to its end")
						break
					}
					tag, err := reader.Close()
					if err != nil {
						break
					}
					tags = append(tags, tag.String())
				}
				if cut.when == pgproxy.AfterServer {
					require.Equal(t, []string{"BEGIN", "INSERT 0 1"}, tags, "answers ahead of the COMMIT's arrive")
				}
				require.NotContains(t, tags, "COMMIT")
				require.Equal(t, 1, b.proxy.Cuts())
				require.Equal(t, cut.rows, b.rows(t))
			})
		}
	}
}

func TestCutCommit_MultiStatementText(t *testing.T) {
	t.Parallel()

	for cutName, cut := range cuts {
		t.Run(cutName, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			conn := b.connect(t, pgx.QueryExecModeExec).PgConn()

			b.proxy.CutCommit(cut.when)
			_, err := conn.Exec(t.Context(), "begin; insert into t values (1); commit").ReadAll()
			require.Error(t, err)
			require.Equal(t, 1, b.proxy.Cuts())
			require.Equal(t, cut.rows, b.rows(t))
		})
	}
}

// What was sent ahead of the COMMIT in the same pipeline reaches the server: nextval is seen although its
// transaction was rolled back.
func TestCutCommit_BeforeServerForwardsWhatPrecedes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := setup(t)
	_, err := b.direct.Exec(ctx, "CREATE SEQUENCE s")
	require.NoError(t, err)
	conn := b.connect(t, pgx.QueryExecModeExec)

	b.proxy.CutCommit(pgproxy.BeforeServer)
	var batch pgx.Batch
	batch.Queue("begin")
	batch.Queue("select nextval('s')")
	batch.Queue("commit")
	require.Error(t, conn.SendBatch(ctx, &batch).Close())

	require.Eventually(t, func() bool {
		var called bool
		require.NoError(t, b.direct.QueryRow(ctx, "SELECT is_called FROM s").Scan(&called))
		return called
	}, 5*time.Second, 5*time.Millisecond)
}

// Cuts are used up in order, one commit each; a commit that the server refuses uses up none.
func TestCutCommit_Order(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := setup(t)

	b.proxy.CutCommit(pgproxy.AfterServer)
	b.proxy.CutCommit(pgproxy.BeforeServer)

	failed := b.connect(t, pgx.QueryExecModeExec)
	_, err := failed.Exec(ctx, "begin; insert into t values (0)")
	require.NoError(t, err)
	_, err = failed.Exec(ctx, "select 1/0")
	require.Error(t, err)
	tag, err := failed.Exec(ctx, "commit")
	require.NoError(t, err)
	require.Equal(t, "ROLLBACK", tag.String())
	require.Zero(t, b.proxy.Cuts())

	for i, want := range []struct {
		cut  bool
		rows int
	}{{true, 1}, {true, 1}, {false, 2}} {
		err = pgx.BeginFunc(ctx, b.connect(t, pgx.QueryExecModeExec), func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "insert into t values (1)")
			return err
		})
		require.Equal(t, want.cut, err != nil, "transaction %d: %v", i, err)
		require.Equal(t, want.rows, b.rows(t), "transaction %d", i)
	}
	require.Equal(t, 2, b.proxy.Cuts())
}

// untilQuicker measures until the bound is met, and requires at least the minimum every time. What is never met is the
// proxy's doing; what is not met at once is the machine's.
func untilQuicker(t *testing.T, minimum, bound time.Duration, measure func() time.Duration) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		took := measure()
		require.GreaterOrEqual(t, took, minimum)
		if took < bound {
			return
		}
		require.True(t, time.Now().Before(end), "never below %v, the last time %v", bound, took)
	}
}

// A round trip takes the delay once: not twice, and not rounded up to the runtime's milliseconds.
func TestSetDelay(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := setup(t)
	conn := b.connect(t, pgx.QueryExecModeExec)
	roundTrip := func() time.Duration {
		start := time.Now()
		_, err := conn.Exec(ctx, ";")
		require.NoError(t, err)
		return time.Since(start)
	}

	const delay = time.Millisecond
	untilQuicker(t, 0, delay, roundTrip)
	b.proxy.SetDelay(delay)
	untilQuicker(t, delay, 2*delay, roundTrip)
	b.proxy.SetDelay(0)
	untilQuicker(t, 0, delay, roundTrip)
}

// Five queries are sent 10 ms apart over a line of 150 ms. Each answer comes 150 ms after its own query: queued behind each
// other they would take five times that, always.
func TestSetDelay_Pipelined(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := b.hijack(t)

	const delay, apart, n = 150 * time.Millisecond, 10 * time.Millisecond, 5
	b.proxy.SetDelay(delay)
	untilQuicker(t, delay+(n-1)*apart, 2*delay, func() time.Duration {
		start := time.Now()
		var sender sync.WaitGroup
		defer sender.Wait()
		sender.Go(func() {
			for i := range n {
				time.Sleep(time.Until(start.Add(time.Duration(i) * apart)))
				conn.Frontend.Send(&pgproto3.Query{String: "select " + strconv.Itoa(i)})
				_ = conn.Frontend.Flush() // a failure shows as a missing answer
			}
		})
		for answers, ready := 0, 0; ready < n; {
			msg, err := conn.Frontend.Receive()
			require.NoError(t, err)
			switch msg := msg.(type) {
			case *pgproto3.DataRow:
				require.Equal(t, strconv.Itoa(answers), string(msg.Values[0]), "in order")
				answers++
			case *pgproto3.ReadyForQuery:
				ready++
			}
		}
		return time.Since(start)
	})
}

// Messages that are larger than one read pass whole, in both directions.
func TestProxy_LargeMessages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := b.connect(t, pgx.QueryExecModeCacheStatement)

	text := strings.Repeat("0123456789abcdef", 100_000)
	var got string
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT $1::text", text).Scan(&got))
	require.True(t, text == got)
}

// A client may ask for TLS first and goes on in clear when told no; a cancel request is passed on.
func TestProxy_PreferTLSAndCancel(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := setup(t)

	config, err := pgconn.ParseConfig("postgres://" + b.proxy.Addr() + "/?sslmode=prefer")
	require.NoError(t, err)
	config.User, config.Password, config.Database = b.config.User, b.config.Password, b.config.Database
	conn, err := pgconn.ConnectConfig(ctx, config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })

	failed := make(chan error, 1)
	go func() {
		_, err := conn.Exec(ctx, "select pg_sleep(60)").ReadAll()
		failed <- err
	}()
	require.Eventually(t, func() bool {
		var sleeps bool
		require.NoError(t, b.direct.QueryRow(ctx,
			"SELECT count(*) = 1 FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'", conn.PID()).Scan(&sleeps))
		return sleeps
	}, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, conn.CancelRequest(ctx))

	var pgErr *pgconn.PgError
	require.ErrorAs(t, <-failed, &pgErr)
	require.Equal(t, "57014", pgErr.Code)
}

func TestProxy_Close(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := b.connect(t, pgx.QueryExecModeExec)

	require.NoError(t, b.proxy.Close())
	_, err := conn.Exec(t.Context(), "select 1")
	require.Error(t, err)
	_, err = net.Dial("tcp", b.proxy.Addr())
	require.Error(t, err)
	require.NoError(t, b.proxy.Close(), "closing twice is fine")
}
