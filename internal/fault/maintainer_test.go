//go:build linux

package fault

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/archive"
)

// The process of a maintainer is killed again and again under load, whatever it is at, and another goes on.
func TestMaintainerProcessKilled(t *testing.T) {
	t.Parallel()
	long(t)
	s := newShop(t)
	for range *rounds {
		l := s.start()
		for range eraSlices {
			child := startChild(t, "maintain", s.URL("shop"), s.now().Format(time.RFC3339Nano))
			l.await(sliceAcks)
			require.NoError(t, child.Process.Kill())
			waitKilled(t, child)
			s.faults++
		}
		l.stop()
		s.verify()
	}
	s.finish()
}

// The backend of a maintainer is killed after each step, before and after its COMMIT; the server recovers. What a killed
// step did to the fence may stay, and what it did otherwise is gone; the next maintainer goes on.
func TestMaintainerBackendKilled(t *testing.T) {
	t.Parallel()
	long(t)
	s := newShop(t)
	taken := map[string]int{}
	for range 3 {
		s.hold()
		for i := range 10 {
			require.NoError(t, s.try(string(rune('a'+s.era))+string(rune('a'+i)), sound[i%len(sound)]))
		}
		s.eraAcks = s.rec.acknowledged() - eraSlices*sliceAcks
		for {
			key := "after a kill " + time.Now().Format(time.RFC3339Nano)
			uncommitted := s.killStep(false)
			if len(uncommitted) == 0 {
				break
			}
			require.NoError(t, s.try(key, byRun))
			before := s.fence()
			s.killStep(true)
			require.GreaterOrEqual(t, s.fence(), before, "the fence went back behind a commit")
			require.Empty(t, s.wrong(true), uncommitted)
			for _, step := range uncommitted {
				taken[step]++
			}
		}
		s.verify()
	}
	for _, step := range []string{"rotate", "switch", "drain", "carry over", "unlink", "detach", "drop", "forget epoch"} {
		require.Positive(t, taken[step], "%s in %v", step, taken)
	}
	t.Logf("%d kills at steps %v", s.faults, taken)
}

// killStep takes one step of maintenance and kills its session, before or after COMMIT. It returns the steps that were
// taken; where there are none nobody is killed.
func (s *shop) killStep(commit bool) (steps []string) {
	s.t.Helper()
	ctx := context.Background()
	var conn *pgx.Conn
	eventually(s.t, func() bool {
		var err error
		conn, err = pgx.Connect(ctx, s.URL("shop"))
		return err == nil
	}, "the server does not come back")
	defer func() { _ = conn.Close(ctx) }()
	tx, err := conn.Begin(ctx)
	require.NoError(s.t, err)
	var data []byte
	require.NoError(s.t, tx.QueryRow(ctx, "SELECT coalesce(jsonb_agg(e), '[]') FROM once._maintain_step('s', $1) AS e", s.now()).Scan(&data))
	var events []archive.Event
	require.NoError(s.t, json.Unmarshal(data, &events))
	for _, e := range events {
		if e.Result == archive.Done {
			steps = append(steps, e.Step)
		}
	}
	pid := int(conn.PgConn().PID())
	if commit || len(steps) == 0 {
		require.NoError(s.t, tx.Commit(ctx))
	}
	if len(steps) > 0 {
		s.killPID(pid)
	}
	return steps
}

// killPID kills a backend, and returns when the server has recovered.
func (s *shop) killPID(pid int) {
	s.t.Helper()
	killed, err := s.KillProcess(pid)
	require.NoError(s.t, err)
	require.True(s.t, killed)
	s.faults++
	s.pool.Reset()
	awaitTrue(s.t, s.pool, "the server does not recover", "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)", pid)
}

// connect returns a connection of its own.
func connect(t testing.TB, s *shop) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), s.URL("shop"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (s *shop) fence() (epoch int64) {
	s.t.Helper()
	require.NoError(s.t, s.pool.QueryRow(context.Background(), "SELECT last_value FROM once_data.s_fence").Scan(&epoch))
	return epoch
}

// A maintainer is killed in its DETACH CONCURRENTLY, which leaves the partition half out. Claims go on, and the next
// maintainer finishes it.
func TestMaintainerKilledInDetach(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx := context.Background()
	require.NoError(t, s.try("forgotten", byRun))
	_, err := archive.Maintain(ctx, s.pool, archive.Options{Wait: patience, Now: time.Now().Add(slice)})
	require.NoError(t, err)
	s.rec.forget([]string{"forgotten"})
	require.NoError(t, s.try("kept", byRun))

	// The detach is due when the epoch without generation 1 is settled: when older, which is there before the switch, has ended.
	// The reader comes after that was noted, and holds up the detach alone.
	maintainer, older, reader := connect(t, s), connect(t, s), connect(t, s)
	past := time.Now().Add(8 * slice)
	step := func() {
		_, err := maintainer.Exec(ctx, "SELECT FROM once._maintain_step('s', $1)", past)
		require.NoError(t, err)
	}
	exists := func(condition string) (found bool) {
		require.NoError(t, maintainer.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+condition+")").Scan(&found))
		return found
	}
	eventually(t, func() bool {
		step()
		return exists("once.epoch WHERE switched_at IS NULL AND NOT 1 = ANY (sealed)")
	}, "generation 1 is not unlinked")
	_, err = older.Exec(ctx, "BEGIN; SELECT 1")
	require.NoError(t, err)
	step()
	step()
	require.True(t, exists("once.generation WHERE generation = 1 AND unlinked_at IS NOT NULL AND detached_at IS NULL"))
	_, err = reader.Exec(ctx, "BEGIN; SELECT count(*) FROM once_data.s")
	require.NoError(t, err)
	require.NoError(t, older.Close(ctx))

	maintained := make(chan error, 1)
	go func() {
		_, err := archive.Maintain(ctx, s.pool, archive.Options{Now: past, Wait: -1})
		maintained <- err
	}()
	pids := s.sessions("query LIKE '%DETACH PARTITION%CONCURRENTLY%' AND state = 'active' AND wait_event_type = 'Lock'")
	require.NoError(t, s.try("meanwhile", byPlain))
	s.killPID(pids[0])
	require.Error(t, <-maintained)

	var pending bool
	require.NoError(t, s.pool.QueryRow(ctx, "SELECT inhdetachpending FROM pg_inherits WHERE inhrelid = 'once_data.s_g1'::regclass").Scan(&pending))
	require.True(t, pending, "the detach was not half done")
	require.NoError(t, s.try("afterwards", byConsume))
	require.Empty(t, s.wrong(true))
	_, err = archive.Maintain(ctx, s.pool, archive.Options{Wait: patience, Now: past})
	require.NoError(t, err)
	var gone bool
	require.NoError(t, s.pool.QueryRow(ctx, "SELECT to_regclass('once_data.s_g1') IS NULL").Scan(&gone))
	require.True(t, gone)
	require.Empty(t, s.wrong(true))
}
