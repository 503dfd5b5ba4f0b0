//go:build linux

package fault

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgonce/pgonce/archive"
	"github.com/pgonce/pgonce/internal/cluster"
)

// dump writes a script of the database, of what the options say.
func (s *shop) dump(what ...string) (script string) {
	s.t.Helper()
	script = filepath.Join(s.Data(), "..", "dump.sql")
	_, err := s.Program("pg_dump", append(what, "--file="+script, s.URL("shop"))...)
	require.NoError(s.t, err)
	return script
}

// restore runs a script in a new database of a cluster.
func restore(t testing.TB, c *cluster.Cluster, database, script string) {
	t.Helper()
	_, err := c.Program("createdb", "--maintenance-db="+c.URL("postgres"), database)
	require.NoError(t, err)
	run(t, c, database, script)
}

// run runs a script.
func run(t testing.TB, c *cluster.Cluster, database, script string) {
	t.Helper()
	_, err := c.Program("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", script, "-d", c.URL(database))
	require.NoError(t, err)
}

// moveTo points the shop at another database.
func (s *shop) moveTo(c *cluster.Cluster, database string) {
	s.t.Helper()
	s.Cluster = c
	s.pool = newPool(s.t, c.URL(database))
}

// A dump is taken across a rotation, under load, and restored. What was acknowledged after its snapshot is not in it, key
// and row alike. Its sequences are ahead of its rows, which maintenance repairs.
func TestDumpUnderLoad(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx := context.Background()
	l := s.start()
	l.await(sliceAcks / 2)
	var snapshot string
	tx, err := connect(t, s).BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	require.NoError(t, err)
	require.NoError(t, tx.QueryRow(ctx, "SELECT pg_export_snapshot()").Scan(&snapshot))
	before := s.fence()
	eventually(t, func() bool { return s.fence() > before }, "nothing is rotated")
	script := s.dump("--snapshot=" + snapshot)
	require.NoError(t, tx.Rollback(ctx))
	l.await(sliceAcks)
	l.stop()
	restore(t, s.Cluster, "restored", script)
	s.moveTo(s.Cluster, "restored")

	_, err = s.pool.Exec(ctx, "SELECT once.claim('s', 'too early')")
	require.ErrorContains(t, err, "ON010")
	report, err := archive.Maintain(ctx, s.pool, archive.Options{Wait: patience}) // before anything else is due
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(report), "did not fit")
	lost := s.rec.forgiveLost(t, s.pool)
	require.Positive(t, lost)
	require.Empty(t, s.wrong(false))
	s.retryAll()
	require.Empty(t, s.wrong(true))
	s.maintainToTheEnd()
	require.Empty(t, s.wrong(true))
	t.Logf("%d of %d operations came after the dump", lost, s.rec.totalKeys)
}

// pg_upgrade keeps everything: keys are recognised, and the fence and the seed of the locks are the same.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	long(t)
	s := newShop(t)
	l := s.start()
	l.await(eraSlices * sliceAcks)
	l.stop()
	sequences := func() (fence, seed int64) {
		require.NoError(t, s.pool.QueryRow(context.Background(), "SELECT f.last_value, s.last_value FROM once_data.s_fence AS f, once_data.s_seed AS s").
			Scan(&fence, &seed))
		return fence, seed
	}
	fence, seed := sequences()
	s.pool.Close()
	require.NoError(t, s.Stop())

	upgraded, err := cluster.New(s.BinDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, upgraded.Remove()) })
	_, err = upgraded.Program("pg_upgrade", "--username=postgres", "--old-datadir="+s.Data(), "--new-datadir="+upgraded.Data(),
		"--old-bindir="+s.BinDir(), "--new-bindir="+s.BinDir(), fmt.Sprintf("--old-port=%d", s.Port()), fmt.Sprintf("--new-port=%d", s.Port()))
	require.NoError(t, err)
	require.NoError(t, upgraded.Start())
	s.moveTo(upgraded, "shop")
	newFence, newSeed := sequences()
	require.Equal(t, fence, newFence)
	require.Equal(t, seed, newSeed)
	s.verify()
	l = s.start()
	l.await(sliceAcks)
	l.stop()
	s.verify()
}

// A logical switchover: the subscriber has the schema from a dump, its rows by replication, and no sequences. A table that
// maintenance makes after the dump stops the subscriber until it is there too. Once it has everything it is promoted, and
// maintenance makes what it still lacks: the fence, the seed, the functions of epochs.
func TestLogicalSwitchover(t *testing.T) {
	t.Parallel()
	long(t)
	for _, rotated := range []bool{false, true} {
		t.Run(fmt.Sprintf("rotated meanwhile %v", rotated), func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			l := s.start()
			l.await(eraSlices * sliceAcks)
			l.stop()
			s.verify()
			subscriber := newCluster(t, "")
			require.NoError(t, subscriber.Start())
			restore(t, subscriber, "moved", s.dump("--schema-only"))
			execute(t, s.URL("shop"), "CREATE PUBLICATION everything FOR ALL TABLES")
			execute(t, subscriber.URL("moved"), fmt.Sprintf(
				"CREATE SUBSCRIPTION moving CONNECTION 'host=127.0.0.1 port=%d user=postgres dbname=shop' PUBLICATION everything", s.Port()))

			if rotated {
				require.NoError(t, s.try("in a generation that is rotated", byRun))
				s.maintainToTheEnd()
			}
			for i := range 30 {
				require.NoError(t, s.try(fmt.Sprint("during ", i), sound[i%len(sound)]))
			}
			require.Empty(t, s.wrong(true))
			if rotated {
				leaf := s.openLeaf()
				eventually(t, func() bool {
					return strings.Contains(subscriber.Log(), fmt.Sprintf("target relation %q does not exist", leaf))
				}, "the subscriber does not miss the new table")
				run(t, subscriber, "moved", s.dump("--schema-only", "--table="+leaf))
				execute(t, subscriber.URL("moved"), "ALTER SUBSCRIPTION moving REFRESH PUBLICATION")
			}
			s.awaitSubscriber(subscriber)
			execute(t, subscriber.URL("moved"), "DROP SUBSCRIPTION moving")
			require.NoError(t, s.Kill())
			s.moveTo(subscriber, "moved")

			_, err := s.pool.Exec(context.Background(), "SELECT once.claim('s', 'too early')")
			require.ErrorContains(t, err, "ON010")
			report, err := archive.Maintain(context.Background(), s.pool, archive.Options{Wait: patience, Now: s.now()})
			require.NoError(t, err)
			require.Contains(t, fmt.Sprint(report), "the seed of the key locks was lost")
			require.Empty(t, report.With(archive.Missing))
			require.Empty(t, s.wrong(true))
			l = s.start()
			l.await(sliceAcks)
			l.stop()
			s.verify()
		})
	}
}

// After a logical switchover the numbers of scopes begin anew, like every sequence.
func TestCreateScopeAfterSwitchover(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx := context.Background()
	_, err := s.pool.Exec(ctx, "SELECT setval(pg_get_serial_sequence('once.scope', 'scope_id'), 1, false)")
	require.NoError(t, err)
	_, err = archive.Maintain(ctx, s.pool, archive.Options{})
	require.NoError(t, err)
	_, err = s.pool.Exec(ctx, "SELECT once.create_scope('another', '2 days', '1 day')")
	require.NoError(t, err, "there is no such scope")
}

// openLeaf is the table of the open generation.
func (s *shop) openLeaf() (leaf string) {
	s.t.Helper()
	require.NoError(s.t, s.pool.QueryRow(context.Background(), "SELECT 'once_data.s_g' || max(generation) FROM once.generation").Scan(&leaf))
	return leaf
}

// awaitSubscriber returns when the subscriber has copied all tables and has all that was committed.
func (s *shop) awaitSubscriber(subscriber *cluster.Cluster) {
	s.t.Helper()
	ctx := context.Background()
	pool := newPool(s.t, subscriber.URL("moved"))
	awaitTrue(s.t, pool, "the subscriber does not copy", "SELECT coalesce(bool_and(srsubstate = 'r'), false) FROM pg_subscription_rel")
	var end string
	require.NoError(s.t, s.pool.QueryRow(ctx, "SELECT pg_current_wal_lsn()::text").Scan(&end))
	awaitTrue(s.t, s.pool, "the subscriber does not follow",
		"SELECT confirmed_flush_lsn >= $1::pg_lsn FROM pg_replication_slots WHERE slot_name = 'moving'", end)
}

// execute runs a statement on a connection of its own.
func execute(t testing.TB, url, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, sql)
	require.NoError(t, err, sql)
}
