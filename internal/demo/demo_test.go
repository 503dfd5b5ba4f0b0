package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce"
	"github.com/pgonce/pgonce/oncetest"
	"github.com/pgonce/pgonce/txn"
)

// The wrong ways to keep an event from being granted twice, as they are found in the field. A demo that does not find
// them out proves nothing about the right one.
const (
	// defenceCheckFirst looks whether the event was granted, then grants.
	defenceCheckFirst Defence = "check-first"
	// defenceMarkFirst marks the event outside of the database, then grants.
	defenceMarkFirst Defence = "mark-first"
)

func init() {
	guards[defenceCheckFirst] = checkFirst
	guards[defenceMarkFirst] = markFirst
}

func checkFirst(ctx context.Context, pool *pgxpool.Pool, p Provider, e Event, grant grantFunc) (result txn.Result[string], err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if result.Value, err = grantedCoupon(ctx, tx, p, e); err != nil {
			return err
		}
		if result.Value != "" {
			result.Outcome = pgonce.Replay
			return nil
		}
		// What else the business does takes its time.
		if _, err := tx.Exec(ctx, "SELECT pg_sleep(0.1)"); err != nil {
			return err
		}
		result.Outcome = pgonce.Fresh
		result.Value, err = grant(ctx, tx)
		return err
	})
	return result, err
}

func markFirst(ctx context.Context, pool *pgxpool.Pool, p Provider, e Event, grant grantFunc) (result txn.Result[string], err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		mark := fmt.Sprintf("%s %x", p.Name(), e.ID)
		file, err := os.OpenFile(filepath.Join(marksFolder(os.Getppid()), mark), os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, os.ErrExist) {
			result.Outcome = pgonce.Replay
			result.Value, err = grantedCoupon(ctx, tx, p, e)
			return err
		}
		if err != nil {
			return err
		}
		if err := file.Close(); err != nil {
			return err
		}
		result.Outcome = pgonce.Fresh
		result.Value, err = grant(ctx, tx)
		return err
	})
	return result, err
}

// marksFolder is where the receivers that a test process started keep their marks.
func marksFolder(pid int) string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("pgonce-demo-marks-%d", pid))
}

func grantedCoupon(ctx context.Context, tx pgx.Tx, p Provider, e Event) (coupon string, err error) {
	err = tx.QueryRow(ctx,
		"SELECT coalesce(max(coupon::text), '') FROM demo.grants WHERE receiver = $1 AND provider = $2 AND event = $3",
		pgonceReceiver, p.Name(), e.ID).Scan(&coupon)
	return coupon, err
}

// testServer is the server that all tests share.
func testServer(t *testing.T) func(context.Context, bool) (Server, error) {
	t.Helper()
	url := oncetest.Postgres(t).AdminURL
	return func(context.Context, bool) (Server, error) { return Server{URL: url}, nil }
}

func runDemo(t *testing.T, opts Options) (Report, string) {
	t.Helper()
	var progress strings.Builder
	opts.Progress = &progress
	report, err := Run(t.Context(), opts)
	require.NoError(t, err)
	var table strings.Builder
	require.NoError(t, report.WriteTable(&table))
	t.Logf("\n%s\n%s", progress.String(), table.String())
	return report, table.String()
}

// requireFaults holds that everything that should happen to a receiver did.
func requireFaults(t *testing.T, side SideReport) {
	t.Helper()
	require.Equal(t, 2, side.Kills)
	require.Equal(t, 2, side.Cuts)
	require.Positive(t, side.Redeliveries)
	require.Positive(t, side.Twins)
}

// The demo as a user runs it, with a server of its own.
func TestRun(t *testing.T) {
	t.Parallel()
	oncetest.Postgres(t) // skips where there is no server

	report, table := runDemo(t, Options{})
	require.Empty(t, report.Problems())
	require.True(t, report.OK())
	requireFaults(t, report.Naive)
	requireFaults(t, report.Pgonce)
	require.Empty(t, report.URL)
	require.True(t, strings.HasSuffix(table, fmt.Sprintf(
		"\ndeliveries=61 unique=17 naive_grants=%d pgonce_grants=17 lost=0 doubled=0\n", report.NaiveGrants)), table)
	require.Greater(t, report.NaiveGrants, report.Deliveries, "the twins and the lost COMMIT are granted as well")

	replays := 0
	for _, p := range report.Providers {
		require.Equal(t, p.Events, p.PgonceGrants, p.Provider)
		replays += p.Replays
	}
	require.GreaterOrEqual(t, replays, report.Deliveries-report.Unique)
}

func TestRun_RealCallbacks(t *testing.T) {
	t.Parallel()

	report, table := runDemo(t, Options{Callbacks: sharedLog(t), Server: testServer(t)})
	require.Empty(t, report.Problems())
	requireFaults(t, report.Pgonce)
	require.True(t, strings.HasSuffix(table, fmt.Sprintf(
		"\ndeliveries=112 unique=19 naive_grants=%d pgonce_grants=19 lost=0 doubled=0\n", report.NaiveGrants)), table)
}

// A demo whose receiver has no defence, or a wrong one, must not pass.
func TestRun_CatchesWrongDefences(t *testing.T) {
	t.Parallel()

	t.Run("None", func(t *testing.T) {
		t.Parallel()
		report, _ := runDemo(t, Options{Defence: DefenceNone, Server: testServer(t)})
		require.False(t, report.OK())
		require.Equal(t, report.NaiveGrants, report.PgonceGrants)
		require.Positive(t, report.Doubled)
	})

	t.Run("CheckFirst", func(t *testing.T) {
		t.Parallel()
		report, _ := runDemo(t, Options{Defence: defenceCheckFirst, Server: testServer(t)})
		require.False(t, report.OK())
		require.Positive(t, report.Doubled, "by deliveries at the same moment")
		require.Less(t, report.PgonceGrants, report.NaiveGrants)
	})

	t.Run("MarkFirst", func(t *testing.T) {
		t.Parallel()
		folder := marksFolder(os.Getpid())
		require.NoError(t, os.Mkdir(folder, 0o700))
		t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })

		report, _ := runDemo(t, Options{Defence: defenceMarkFirst, Server: testServer(t)})
		require.False(t, report.OK())
		require.Zero(t, report.Doubled)
		require.GreaterOrEqual(t, report.Lost, 2, "by the kill inside the business function, and by the COMMIT that never arrived")
		require.Equal(t, report.Unique-2, report.PgonceGrants)
	})
}

func TestRun_Keep(t *testing.T) {
	t.Parallel()

	path := writeLog(t, line(1), line(2))
	report, table := runDemo(t, Options{Callbacks: path, Keep: true, Server: testServer(t)})
	require.True(t, report.OK(), "one event suffers all faults")
	requireFaults(t, report.Pgonce)
	require.Contains(t, table, "database left running: "+report.URL)

	conn, err := pgx.Connect(t.Context(), report.URL)
	require.NoError(t, err)
	var pgonceGrants, naiveGrants int
	require.NoError(t, conn.QueryRow(t.Context(),
		"SELECT count(*) FILTER (WHERE receiver = 'pgonce'), count(*) FILTER (WHERE receiver = 'naive') FROM demo.grants",
	).Scan(&pgonceGrants, &naiveGrants))
	require.Equal(t, 1, pgonceGrants)
	require.Equal(t, report.NaiveGrants, naiveGrants)

	name := conn.Config().Database
	require.NoError(t, conn.Close(t.Context()))
	admin, err := testServer(t)(t.Context(), false)
	require.NoError(t, err)
	conn, err = pgx.Connect(t.Context(), admin.URL)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "DROP DATABASE "+name)
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
}

func TestRun_Errors(t *testing.T) {
	t.Parallel()

	t.Run("BrokenLog", func(t *testing.T) {
		t.Parallel()
		server := func(context.Context, bool) (Server, error) { panic("a broken log needs no server") }
		_, err := Run(t.Context(), Options{Callbacks: writeLog(t, line(1, "stripe", "mollusc")), Server: server})
		require.ErrorContains(t, err, `log.ndjson:1: unknown provider "mollusc"`)
	})

	t.Run("NoServer", func(t *testing.T) {
		t.Parallel()
		refused := errors.New("no server today")
		_, err := Run(t.Context(), Options{Server: func(context.Context, bool) (Server, error) { return Server{}, refused }})
		require.ErrorIs(t, err, refused)
	})

	t.Run("ReceiverDoesNotStart", func(t *testing.T) {
		t.Parallel()
		_, err := startProcess(t.Context(), receiverSettings{DatabaseURL: "postgres://127.0.0.1:1/none"})
		require.ErrorContains(t, err, "demo: the receiver did not start: receiver: failed to connect")
	})

	// Nothing is left behind when the caller gives up.
	t.Run("Cancelled", func(t *testing.T) {
		t.Parallel()
		server := testServer(t)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		stopped := 0
		_, err := Run(ctx, Options{Server: func(ctx context.Context, keep bool) (Server, error) {
			s, err := server(ctx, keep)
			s.Stop = func() error { stopped++; return nil }
			return s, err
		}, Progress: writerFunc(func(text []byte) {
			if strings.Contains(string(text), "without defence") {
				cancel()
			}
		})})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 1, stopped)
	})
}

type writerFunc func(text []byte)

func (f writerFunc) Write(text []byte) (int, error) {
	f(text)
	return len(text), nil
}
